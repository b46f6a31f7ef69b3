#include "trireme/process_start.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace trireme::apps {

void put_process_in_order() {
  // In this order, as open() takes the lowest number that is free.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      const int opened = ::open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);
      if (opened >= 0 && opened != stream) ::close(opened);
    }
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace trireme::apps
