#include "trireme/process_start.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/printable.h"

namespace trireme::apps {

namespace {

constexpr int most_threads = 1024;  // of device.threads, too

// The process may have no memory left, so this takes none but for what it must print.
[[noreturn]] void end_uncaught() {
  int code = exit_bug;
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
    std::fputs("trireme: internal error: ended without an error that is known\n", stderr);
  } catch (const std::bad_alloc&) {
    std::fputs("trireme: failed: out of memory\n", stderr);
    code = exit_runtime_failure;
  } catch (const std::system_error& error) {
    const bool no_thread = error.code() == std::errc::resource_unavailable_try_again;
    std::fprintf(stderr, "trireme: failed: %s\n", no_thread ? no_further_thread : error.what());
    code = exit_runtime_failure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "trireme: internal error: %s\n", error.what());
  } catch (...) {
    std::fputs("trireme: internal error\n", stderr);
  }
  std::_Exit(code);
}

}  // namespace

void put_process_in_order() {
  // In this order, as open() takes the lowest number that is free.
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF) {
      const int opened = ::open("/dev/null", stream == STDIN_FILENO ? O_RDONLY : O_WRONLY);
      if (opened >= 0 && opened != stream) ::close(opened);
    }
  std::signal(SIGXFSZ, SIG_IGN);
  std::set_terminate(end_uncaught);
}

void check_thread_variables(const std::map<std::string, std::string>& environment) {
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
    const auto found = environment.find(name);
    if (found == environment.end() || found->second.empty()) continue;
    // OpenMP takes a number for each level of nesting.
    const std::string& text = found->second;
    const char *at = text.data(), *end = text.data() + text.size();
    for (;;) {
      int threads = 0;
      const auto [rest, error] = std::from_chars(at, end, threads);
      if (error != std::errc() || threads < 1 || threads > most_threads || (rest != end && *rest != ','))
        throw ConfigError({.file = "environment", .key = name, .value = text,
                           .allowed = fmt::format("a number of threads from 1 to {}", most_threads)});
      if (rest == end) break;
      at = rest + 1;
    }
  }
}

}  // namespace trireme::apps
