// The order in which ranks are numbered over the axes of a mesh: the first axis varies fastest. As Megatron-core's
// RankGenerator has it.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "base/axis.h"

namespace trireme::plan {

// A value of a few bytes; empty, or the axes of one of the two sets below.
class AxisOrder {
 public:
  constexpr AxisOrder() = default;
  constexpr AxisOrder(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) add(axis);
  }
  constexpr void add(Axis axis) { axes_[size_++] = axis; }
  constexpr const Axis* begin() const { return axes_.data(); }
  constexpr const Axis* end() const { return axes_.data() + size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr bool operator==(const AxisOrder&) const = default;

 private:
  std::array<Axis, 5> axes_{};
  std::uint8_t size_ = 0;
};

inline constexpr AxisOrder default_order{Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp};

std::string to_text(const AxisOrder& order);  // "tp-cp-ep-dp-pp"; "" where empty
// layout.order: every one of tp, cp, ep, dp and pp. std::invalid_argument says what is wrong.
AxisOrder order_from_text(const std::string& text);
// layout.expert_order: every one of etp, ep, edp and pp, or "", which follows layout.order.
AxisOrder expert_order_from_text(const std::string& text);

// The experts' order that follows layout.order: etp and edp in the places of tp and dp.
AxisOrder expert_order_of(const AxisOrder& order);

}  // namespace trireme::plan
