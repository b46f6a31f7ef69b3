#include "trireme/standard_output.h"

#include <cerrno>
#include <csignal>
#include <cstdio>

namespace trireme::apps {

void write_output(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  const int error = errno != 0 ? errno : EIO;
  std::clearerr(stdout);  // it is told here, and once
  throw OutputError(error);
}

void ignore_gone_readers() { std::signal(SIGPIPE, SIG_IGN); }

}  // namespace trireme::apps
