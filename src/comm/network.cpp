#include "comm/network.h"

#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>

#include "base/errors.h"

namespace trireme::comm {

std::string host_identity() {
  std::string boot_id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot_id;
  std::array<char, 128> name{};
  // Network namespaces of one kernel share host name and boot id but not loopback.
  const auto length = readlink("/proc/self/ns/net", name.data(), name.size());
  const std::string space(name.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return std::string(host.data()) + "/" + boot_id + "/" + space;
}

std::string local_address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    const int fd = socket(a->ai_family, SOCK_DGRAM, 0);
    if (fd < 0) continue;
    sockaddr_storage local{};
    socklen_t size = sizeof(local);
    std::array<char, NI_MAXHOST> text{};
    // Connecting a datagram socket only asks the routing table.
    const bool ok = connect(fd, a->ai_addr, a->ai_addrlen) == 0 &&
                    getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) == 0 &&
                    getnameinfo(reinterpret_cast<const sockaddr*>(&local), size, text.data(), text.size(), nullptr, 0,
                                NI_NUMERICHOST) == 0;
    close(fd);
    if (ok) return text.data();
  }
  return {};
}

namespace {

std::string interfaces_of_host() {
  struct if_nameindex* const all = if_nameindex();
  if (all == nullptr) return "none";
  std::string names;
  for (const struct if_nameindex* at = all; at->if_name != nullptr; ++at) names += (names.empty() ? "" : ", ") + std::string(at->if_name);
  if_freenameindex(all);
  return names;
}

}  // namespace

NetworkChoice choose_network(const std::string& interface, const std::vector<std::string>& identities,
                             const std::string& master_address) {
  if (!interface.empty()) {
    if (if_nametoindex(interface.c_str()) == 0)
      throw ConfigError({.key = "GLOO_SOCKET_IFNAME", .value = interface,
                         .allowed = fmt::format("is no network interface of this host, which has {}", interfaces_of_host())});
    return {.interface = interface};
  }
  const bool one_host = std::all_of(identities.begin(), identities.end(),
                                    [&](const std::string& identity) { return identity == identities.front(); });
  if (one_host) return {.address = "127.0.0.1"};
  const std::string address = master_address.empty() ? "" : local_address_towards(master_address);
  const bool loopback = address.rfind("127.", 0) == 0 || address == "::1";
  return {.address = loopback ? "" : address};
}

}  // namespace trireme::comm
