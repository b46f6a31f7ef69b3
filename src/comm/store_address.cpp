#include "comm/store_address.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "base/errors.h"

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Address {
  sockaddr_storage socket{};
  socklen_t size = 0;
  std::string text;  // numeric

  int family() const { return socket.ss_family; }
  bool loopback() const { return text == "::1" || text.starts_with("127."); }
};

struct Resolved {
  std::vector<Address> addresses;
  std::string error;  // where there is none
};

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const bool ok = getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) == 0;
  return ok ? text.data() : "";
}

Resolved look_up(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return {.error = error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error)};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  Resolved out;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    Address address{.size = a->ai_addrlen, .text = numeric(a->ai_addr, a->ai_addrlen)};
    std::memcpy(&address.socket, a->ai_addr, a->ai_addrlen);
    out.addresses.push_back(std::move(address));
  }
  return out;
}

// A name server that does not answer keeps getaddrinfo longer than anyone here may wait: a thread of its own asks.
Resolved resolve(const std::string& host, int port, Clock::time_point end) {
  Resolved known = look_up(host, port, AI_NUMERICHOST);
  if (known.error.empty()) return known;
  auto answer = std::make_shared<std::promise<Resolved>>();
  std::future<Resolved> future = answer->get_future();
  std::thread([answer, host, port] { answer->set_value(look_up(host, port, 0)); }).detach();
  if (future.wait_until(end) == std::future_status::ready) return future.get();
  return {.error = "the name's server does not answer"};
}

// Connects within `limit`; the error, or 0.
int try_connect(const Address& address, milliseconds limit) {
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return errno;
  int error = 0;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address.socket), address.size) != 0) error = errno;
  if (error == EINPROGRESS) {
    pollfd waiting{.fd = fd, .events = POLLOUT, .revents = 0};
    socklen_t size = sizeof(error);
    const int ready = poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(1, limit.count())));
    if (ready == 0)
      error = ETIMEDOUT;
    else if (ready < 0)
      error = errno;
    else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
      error = errno;
  }
  close(fd);
  return error;
}

// A socket that listens at `address`; -1 and errno.
int listen_on(const Address& address, bool both_families) {
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1, off = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (both_families) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address.socket), address.size) == 0 && listen(fd, SOMAXCONN) == 0)
    return fd;
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

Listener listening(int fd, const std::string& address, std::string note) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  const int port = ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6*>(&bound)->sin6_port
                                                     : reinterpret_cast<const sockaddr_in*>(&bound)->sin_port);
  return {.fd = fd, .port = port, .address = address, .note = std::move(note)};
}

[[noreturn]] void fail(const char* doing, const std::string& host, int port, const std::string& reason) {
  throw RuntimeFailure({.operation = fmt::format("{} the store at {}:{}", doing, host, port), .reason = reason});
}

}  // namespace

std::string without_brackets(const std::string& host) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

Listener listen_at(const std::string& named, int port, bool several_hosts, milliseconds limit) {
  const std::string host = without_brackets(named);
  const auto end = Clock::now() + limit;
  Resolved at = resolve(host, port, end);
  while (!at.error.empty()) {  // a host's own name may be announced a moment after it has started
    if (Clock::now() + milliseconds(200) > end) fail("serve", named, port, at.error);
    std::this_thread::sleep_for(milliseconds(200));
    at = resolve(host, port, end);
  }
  std::string why;
  for (const Address& address : at.addresses) {
    // Many machines know their own name as 127.0.1.1, where no other machine comes.
    if (several_hosts && address.loopback() && host != address.text && host != "localhost") {
      why = fmt::format("{} means {} on this host", named, address.text);
      continue;
    }
    if (const int fd = listen_on(address, false); fd >= 0) return listening(fd, address.text, "");
    if (errno != EADDRNOTAVAIL && errno != EAFNOSUPPORT) fail("serve", named, port, std::strerror(errno));
    if (why.empty()) why = fmt::format("no interface of this host has the address {}", address.text);
  }
  for (const char* any : {"::", "0.0.0.0"}) {
    const Resolved all = look_up(any, port, AI_NUMERICHOST | AI_PASSIVE);
    if (!all.error.empty()) continue;
    if (const int fd = listen_on(all.addresses[0], true); fd >= 0)
      return listening(fd, std::string(any) == "::" ? "::1" : "127.0.0.1",
                       why + ": the store listens on every interface");
    if (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL) break;
  }
  fail("serve", named, port, std::strerror(errno));
}

std::string reach(const std::string& named, int port, milliseconds limit, const Say& say) {
  const std::string host = without_brackets(named);
  const auto begin = Clock::now();
  const auto end = begin + limit;
  auto next_word = begin + milliseconds(2000);
  milliseconds pause{20};
  while (true) {
    const Resolved at = resolve(host, port, end);
    std::string reason = at.error;
    for (const Address& address : at.addresses) {
      const auto left = std::chrono::duration_cast<milliseconds>(end - Clock::now());
      const int error = try_connect(address, std::min(left, milliseconds(1500)));
      if (error == 0) return address.text;
      reason = std::strerror(error);
    }
    const auto now = Clock::now();
    if (now + pause >= end) {
      const double seconds = std::chrono::duration<double>(limit).count();
      fail("connect to", named, port, fmt::format("{} (tried for {:g} s)", reason, seconds));
    }
    if (say && now >= next_word) {
      const double left = std::chrono::duration<double>(end - now).count();
      say(fmt::format("waits for the store at {}:{}: {} (for {:.0f} s more at most)", named, port, reason, left));
      next_word = now + milliseconds(10000);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, milliseconds(500));
  }
}

}  // namespace trireme::comm
