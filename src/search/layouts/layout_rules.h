// Which layouts a model, a batch and a number of devices admit: divisibility and the shapes that schedules need. A
// layout that breaks a rule is not an error but a value with reasons.
#pragma once
#include <string>
#include <vector>

#include "sim/estimate/setting.h"

namespace trireme::search {

// Of a setting whose layout.dp is resolved.
struct LayoutRule {
  const char* key;                             // what breaks it: "layout.ep"
  bool (*holds)(const sim::Setting&);          // no memory is allocated
  std::string (*reason)(const sim::Setting&);  // "layout.ep = 3 does not divide the 256 experts"
};

// Rules of degrees and batch, which schedule, recomputation, sharding and swapping don't touch.
const std::vector<LayoutRule>& degree_rules();
// Rules of the schedule, its pieces, and of sharding.
const std::vector<LayoutRule>& schedule_rules();

bool holds(const std::vector<LayoutRule>& rules, const sim::Setting& setting);
// Of all rules; empty: the layout can be estimated.
std::vector<std::string> broken_rules(const sim::Setting& setting);

// The data degree that follows from the number of devices; 0 where they are no multiple of the other degrees.
int data_degree(const sim::Setting& setting);

// Slots of the schedule, over all stages: what simulating it costs.
double schedule_slots(const sim::Setting& setting);
inline constexpr double most_slots = 16e6;

}  // namespace trireme::search
