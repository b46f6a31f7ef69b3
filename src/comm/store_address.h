// Where the store of a run is: names become addresses, rank 0 gets a socket there and nowhere else, and the others
// learn why they cannot reach it. c10d's own connecting says neither and listens on every interface.
#pragma once
#include <chrono>
#include <functional>
#include <string>

namespace trireme::comm {

using Say = std::function<void(const std::string&)>;

// The host of "[::1]" is "::1"; other names stay.
std::string without_brackets(const std::string& host);

struct Listener {
  int fd = -1;  // bound and listening; the caller's
  int port = 0;
  std::string address;  // numeric, by which this process reaches it itself
  std::string note;     // why it listens on every interface, where it must; else empty
};

// Listens at `host` only: the first of its addresses that this machine has. Where it has none of them (the name stands
// for an address that is translated on the way), or where a host name means loopback here though other machines are to
// come
// (`several_hosts`), it listens on every interface and notes that. Port 0 takes a free one. RuntimeFailure otherwise.
Listener listen_at(const std::string& host, int port, bool several_hosts, std::chrono::milliseconds limit);

// The numeric address at which something listens now, of those that `host` has. Tries again until `limit` has passed
// and throws RuntimeFailure with the last reason ("Connection refused", "Name or service not known"). `say` is told
// after two seconds, and every ten, that it waits, and for what.
std::string reach(const std::string& host, int port, std::chrono::milliseconds limit, const Say& say = {});

}  // namespace trireme::comm
