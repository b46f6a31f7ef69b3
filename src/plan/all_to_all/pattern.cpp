#include "plan/all_to_all/pattern.h"

#include <algorithm>

namespace trireme::plan {

Parcel block(int source, int destination) {
  return {.sources = {.first = source}, .destinations = {.first = destination}};
}

int num_blocks(const Transfer& transfer) {
  int blocks = 0;
  for (const Parcel& parcel : transfer.parcels) blocks += parcel.num_blocks();
  return blocks;
}

Pattern transpose(const Pattern& p) {
  static const std::string suffix = " transposed";
  const bool back = p.name.ends_with(suffix);
  Pattern out{.name = back ? p.name.substr(0, p.name.size() - suffix.size()) : p.name + suffix,
              .size = p.size,
              .flow = p.flow == Flow::dispatch ? Flow::combine : Flow::dispatch};
  const int n = static_cast<int>(p.phases.size());
  for (int i = n - 1; i >= 0; --i) {
    const Phase& phase = p.phases[static_cast<std::size_t>(i)];
    Phase turned{.name = phase.name, .in_flight = phase.in_flight};
    turned.transfers.reserve(phase.transfers.size());
    for (const Transfer& t : phase.transfers) {
      Transfer back{t.to, t.from, {}};
      for (const Parcel& parcel : t.parcels) back.parcels.push_back({parcel.destinations, parcel.sources, parcel.rows});
      turned.transfers.push_back(std::move(back));
    }
    for (int later = n - 1; later > i; --later) {
      const auto& after = p.phases[static_cast<std::size_t>(later)].after;
      if (std::find(after.begin(), after.end(), i) != after.end()) turned.after.push_back(n - 1 - later);
    }
    out.phases.push_back(std::move(turned));
  }
  return out;
}

bool needs_tokens(const Pattern& p) {
  for (const Phase& phase : p.phases)
    for (const Transfer& t : phase.transfers)
      for (const Parcel& parcel : t.parcels)
        if (parcel.rows != Rows::each) return true;
  return false;
}

}  // namespace trireme::plan
