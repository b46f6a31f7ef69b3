#include "plan/axis_order.h"

#include <stdexcept>

#include <fmt/format.h>

namespace trireme::plan {

namespace {

AxisOrder parse(const std::string& text, Axes all) {
  AxisOrder out;
  Axes seen;
  for (const Axis axis : axes_in_order(text)) {
    if (!all.has(axis)) throw std::invalid_argument(fmt::format("{} is none of {}", name_of(axis), name_of(all)));
    out.add(axis);
    seen = seen | axis;
  }
  if (seen != all) throw std::invalid_argument(fmt::format("\"{}\" leaves out some of {}", text, name_of(all)));
  return out;
}

}  // namespace

std::string to_text(const AxisOrder& order) {
  std::string out;
  for (const Axis axis : order) out += (out.empty() ? "" : "-") + std::string(name_of(axis));
  return out;
}

AxisOrder order_from_text(const std::string& text) {
  return parse(text, dense_axes | Axis::ep);
}

AxisOrder expert_order_from_text(const std::string& text) {
  return text.empty() ? AxisOrder{} : parse(text, expert_axes);
}

AxisOrder expert_order_of(const AxisOrder& order) {
  AxisOrder out;
  for (const Axis axis : order)
    if (axis != Axis::cp) out.add(axis == Axis::tp ? Axis::etp : axis == Axis::dp ? Axis::edp : axis);
  return out;
}

}  // namespace trireme::plan
