#include "fuzz/work_limit.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace trireme::fuzz {
namespace {

std::atomic<std::int64_t> held{0}, highest{0};
std::atomic<bool> counting{false};
const std::string* input_now = nullptr;
char format_now[64] = "";
char crash_folder[512] = "";

void say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;
}

// In a signal handler: nothing that allocates.
void write_input(int signal) {
  say(signal == SIGPROF ? "\nfuzz: no end within its processor time: format " : "\nfuzz: crashed: format ");
  say(format_now);
  if (input_now != nullptr && crash_folder[0] != '\0') {
    char path[640];
    std::snprintf(path, sizeof path, "%s/%s-crash-%d", crash_folder, format_now, static_cast<int>(::getpid()));
    const int file = ::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file >= 0 && ::write(file, input_now->data(), input_now->size()) >= 0) {
      say(", input ");
      say(path);
    }
    if (file >= 0) ::close(file);
  }
  say("\n");
  if (signal == SIGPROF) ::_exit(1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void set_timer(int seconds) {
  const itimerval timer{.it_interval = {}, .it_value = {.tv_sec = seconds, .tv_usec = 0}};
  ::setitimer(ITIMER_PROF, &timer, nullptr);
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  void* out = nullptr;
  const auto asked = static_cast<std::int64_t>(bytes);
  if (!counting || (asked >= 0 && asked < most_bytes)) {
    if (::posix_memalign(&out, alignment < sizeof(void*) ? sizeof(void*) : alignment, bytes == 0 ? 1 : bytes) != 0) out = nullptr;
  } else {
    highest = most_bytes + 1;
  }
  if (out == nullptr) throw std::bad_alloc();
  const std::int64_t now = held += static_cast<std::int64_t>(::malloc_usable_size(out));
  if (counting && now > highest) highest = now;
  if (counting && now > most_bytes) {
    held -= static_cast<std::int64_t>(::malloc_usable_size(out));
    std::free(out);
    throw std::bad_alloc();
  }
  return out;
}

void release(void* at) {
  if (at == nullptr) return;
  held -= static_cast<std::int64_t>(::malloc_usable_size(at));
  std::free(at);
}

}  // namespace

void begin_input(const std::string& format, const std::string& input) {
  std::snprintf(format_now, sizeof format_now, "%s", format.c_str());
  input_now = &input;
  held = highest = 0;
  counting = true;
  set_timer(most_seconds);
}

std::string end_input() {
  set_timer(0);
  counting = false;
  input_now = nullptr;
  return highest > most_bytes ? "more than " + std::to_string(most_bytes >> 20) + " MiB were asked for" : "";
}

void write_crashes_to(const std::string& folder) {
  std::snprintf(crash_folder, sizeof crash_folder, "%s", folder.c_str());
  static char stack[1 << 16];  // of the handler: the crash may be that there is no more of the usual one
  const stack_t other{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  ::sigaltstack(&other, nullptr);
  struct sigaction action {};
  action.sa_handler = write_input;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
#if defined(__SANITIZE_ADDRESS__)
  for (const int signal : {SIGPROF}) ::sigaction(signal, &action, nullptr);  // the sanitizer tells more of the others
#else
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF}) ::sigaction(signal, &action, nullptr);
#endif
}

}  // namespace trireme::fuzz

void* operator new(std::size_t bytes) { return trireme::fuzz::allocate(bytes, alignof(std::max_align_t)); }
void* operator new[](std::size_t bytes) { return trireme::fuzz::allocate(bytes, alignof(std::max_align_t)); }
void* operator new(std::size_t bytes, std::align_val_t a) { return trireme::fuzz::allocate(bytes, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t bytes, std::align_val_t a) { return trireme::fuzz::allocate(bytes, static_cast<std::size_t>(a)); }
void operator delete(void* at) noexcept { trireme::fuzz::release(at); }
void operator delete[](void* at) noexcept { trireme::fuzz::release(at); }
void operator delete(void* at, std::size_t) noexcept { trireme::fuzz::release(at); }
void operator delete[](void* at, std::size_t) noexcept { trireme::fuzz::release(at); }
void operator delete(void* at, std::align_val_t) noexcept { trireme::fuzz::release(at); }
void operator delete[](void* at, std::align_val_t) noexcept { trireme::fuzz::release(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { trireme::fuzz::release(at); }
void operator delete[](void* at, std::size_t, std::align_val_t) noexcept { trireme::fuzz::release(at); }
