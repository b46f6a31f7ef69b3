// A child process python3 that runs a script of ours and answers on its standard output what it is asked on its input.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::train {

class PythonProcess {
 public:
  // python3 as the PATH finds it, so that an active virtual environment is the one that is used. ConfigError where
  // there is none; `purpose` says in errors what it is needed for: "tokenizer.json".
  PythonProcess(const char* script, const std::vector<std::string>& arguments, std::string purpose);
  ~PythonProcess();  // the child is ended
  PythonProcess(const PythonProcess&) = delete;
  PythonProcess& operator=(const PythonProcess&) = delete;

  // RuntimeFailure where the child has ended, with its exit code or signal.
  void send(std::string_view bytes);
  std::string receive_line();  // without its line end
  void receive(std::span<std::byte> out);

 private:
  [[noreturn]] void fail();
  void fill();  // reads more into received_

  std::string purpose_;
  std::string received_;  // and not yet asked for
  std::size_t at_ = 0;
  int socket_ = -1;
  pid_t pid_ = -1;
};

}  // namespace trireme::train
