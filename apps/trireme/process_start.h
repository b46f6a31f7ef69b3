// What a process is handed by whoever starts it, put in order before anything else is done.
#pragma once

namespace trireme::apps {

// Standard streams that are closed become /dev/null: the next file or socket that is opened would take their number, and
// get what is printed. A limit on the size of files (ulimit -f) becomes an error of the write that reaches it, which is
// told with the file's name, instead of a signal that ends the process half-way.
void put_process_in_order();

}  // namespace trireme::apps
