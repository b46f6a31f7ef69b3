#include "plan/all_to_all/traffic.h"

#include "base/errors.h"

namespace trireme::plan {
namespace {

void count(const Transfer& t, Flow flow, const NodeShape& shape, const RowCounts& counts, Traffic& into) {
  if (t.from == t.to) return;
  LevelTraffic& level = into.at(shape.reach(t.from, t.to));
  ++level.messages;
  for (const Parcel& parcel : t.parcels) level.rows += rows_of(parcel, flow, counts);
}

LevelTraffic sum(std::initializer_list<LevelTraffic> parts) {
  LevelTraffic out;
  for (const LevelTraffic& part : parts) {
    out.messages += part.messages;
    out.rows += part.rows;
  }
  return out;
}

}  // namespace

LevelTraffic Traffic::off_node() const {
  return sum({at(Reach::group), at(Reach::beyond)});
}
LevelTraffic Traffic::total() const {
  return sum({on_node(), off_node()});
}

Traffic traffic(const Pattern& pattern, int member, const NodeShape& shape, const RowCounts& counts) {
  Traffic out;
  for (const Phase& phase : pattern.phases)
    for (const Transfer& t : phase.transfers)
      if (t.from == member) count(t, pattern.flow, shape, counts, out);
  return out;
}

std::vector<Traffic> traffic(const Pattern& pattern, const NodeShape& shape, const RowCounts& counts) {
  TRIREME_CHECK(pattern.size == shape.size(), "{} of {} members on {}", pattern.name, pattern.size, to_text(shape));
  std::vector<Traffic> out(static_cast<std::size_t>(pattern.size));
  for (const Phase& phase : pattern.phases)
    for (const Transfer& t : phase.transfers)
      count(t, pattern.flow, shape, counts, out[static_cast<std::size_t>(t.from)]);
  return out;
}

}  // namespace trireme::plan
