// What a process is handed by whoever starts it, put in order before anything else is done.
#pragma once
#include <map>
#include <string>

namespace trireme::apps {

inline constexpr const char* no_further_thread =
    "out of memory: the system starts no further thread of this process (is there an ulimit -v or -u?)";

// Standard streams that are closed become /dev/null: the next file or socket that is opened would take their number, and
// get what is printed. A limit on the size of files (ulimit -f) becomes an error of the write that reaches it, which is
// told with the file's name, instead of a signal that ends the process half-way. An error that no one catches, as in a
// thread of a library, ends the process with one line and the exit code of such an error.
void put_process_in_order();

// ConfigError where OMP_NUM_THREADS or MKL_NUM_THREADS say what no host has: libraries take it as it is, and crash.
void check_thread_variables(const std::map<std::string, std::string>& environment);

}  // namespace trireme::apps
