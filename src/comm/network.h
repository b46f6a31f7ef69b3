// Which of this host's addresses the other ranks are to use.
#pragma once
#include <string>
#include <vector>

namespace trireme::comm {

// Equal for processes that share a loopback interface: the kernel's boot id and the network namespace.
std::string host_identity();

struct NetworkChoice {
  std::string interface;  // of which the address is taken; when empty:
  std::string address;    // a numeric address; when this is empty too: what the host's own name resolves to
  bool operator==(const NetworkChoice&) const = default;
};

// The interface if one is named; loopback where all ranks are on one host; else the address from which `master_address`
// is reached, unless that is loopback; else the host's name.
NetworkChoice choose_network(const std::string& interface, const std::vector<std::string>& identities,
                             const std::string& master_address);

// The local address from which packets to `host` would leave; empty when it cannot be told. Sends nothing.
std::string local_address_towards(const std::string& host);

}  // namespace trireme::comm
