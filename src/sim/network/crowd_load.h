// What crowd_time adds up: seconds of work by resource.
#pragma once
#include <array>
#include <cstddef>
#include <vector>

namespace trireme::sim {

// Seconds of work of every resource, each way where it has two.
struct CrowdLoad {
  std::vector<double> member;  // messages, both ways together: one thread
  std::vector<double> port_out, port_in, card_out, card_in, uplink_out, uplink_in;
  CrowdLoad(std::size_t members, std::size_t cards, std::size_t groups)
      : member(members),
        port_out(members),
        port_in(members),
        card_out(cards),
        card_in(cards),
        uplink_out(groups),
        uplink_in(groups) {}
  CrowdLoad& operator+=(const CrowdLoad& other);
};

// Wires, each of which carries one phase's bytes after the other's.
inline constexpr std::array<std::vector<double> CrowdLoad::*, 6> of_wires{
    &CrowdLoad::port_out, &CrowdLoad::port_in,    &CrowdLoad::card_out,
    &CrowdLoad::card_in,  &CrowdLoad::uplink_out, &CrowdLoad::uplink_in};
inline CrowdLoad& CrowdLoad::operator+=(const CrowdLoad& other) {
  const auto add = [](std::vector<double>& to, const std::vector<double>& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  };
  add(member, other.member);
  for (auto wires : of_wires) add(this->*wires, other.*wires);
  return *this;
}

}  // namespace trireme::sim
