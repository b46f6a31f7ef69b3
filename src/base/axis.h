// The axes of a mesh of ranks, and sets of them. Which ranks they join: plan/mesh.h.
#pragma once
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

enum class Axis : std::uint8_t {
  tp,   // ranks that share a layer's matrices
  cp,   // ranks that share a sequence's tokens
  dp,   // ranks with sequences of their own
  pp,   // pipeline stages
  ep,   // ranks that share a layer's experts
  etp,  // ranks that share an expert's matrices
  edp,  // ranks that hold the same part of the same experts
};
inline constexpr int num_axes = 7;
const char* name_of(Axis axis);

class Axes {
 public:
  constexpr Axes() = default;
  constexpr Axes(Axis axis) : bits_(static_cast<std::uint8_t>(1u << static_cast<unsigned>(axis))) {}
  constexpr bool has(Axis axis) const { return (bits_ & Axes(axis).bits_) != 0; }
  constexpr bool empty() const { return bits_ == 0; }
  constexpr bool within(Axes all) const { return (bits_ & ~all.bits_) == 0; }
  constexpr bool is_one() const { return bits_ != 0 && (bits_ & (bits_ - 1)) == 0; }
  friend constexpr Axes operator|(Axes a, Axes b) {
    Axes out;
    out.bits_ = static_cast<std::uint8_t>(a.bits_ | b.bits_);
    return out;
  }
  constexpr auto operator<=>(const Axes&) const = default;

 private:
  std::uint8_t bits_ = 0;
};
constexpr Axes operator|(Axis a, Axis b) { return Axes(a) | Axes(b); }

// Each of these two sets numbers all ranks of a mesh: by what attention and dense layers are split over, and by what
// experts are.
inline constexpr Axes dense_axes = Axis::tp | Axis::cp | Axis::dp | Axis::pp;
inline constexpr Axes expert_axes = Axis::ep | Axis::etp | Axis::edp | Axis::pp;

// "cp-dp": in the order of the enumeration.
std::string name_of(Axes axes);

// "tp" and "tp-cp-dp". std::invalid_argument for an unknown name, for one that comes twice and for none.
Axis axis_from_name(const std::string& name);
std::vector<Axis> axes_in_order(const std::string& names);

}  // namespace trireme
