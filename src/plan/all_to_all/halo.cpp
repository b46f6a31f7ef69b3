#include "plan/all_to_all/halo.h"

#include <algorithm>

#include "base/errors.h"
#include "plan/all_to_all/between_nodes.h"
#include "plan/all_to_all/parcels.h"

namespace trireme::plan {
namespace {

// Inside each node: what its members have of `held(member)` (ascending sources) goes to the members that it is for.
template <class Held>
Phase redistribution(const NodeShape& shape, Senders senders, const Held& held, int after) {
  return on_node(shape, senders, {.name = "redistribute", .after = {after}}, [&](int from, int to) {
    std::vector<Parcel> parcels;
    for (const Members& sources : progressions(held(from))) parcels.push_back({sources, {.first = to}});
    return parcels;
  });
}

}  // namespace

Pattern halo(const NodeShape& shape, Senders senders) {
  Pattern p{.name = "halo", .size = shape.size(), .phases = {inside_node(shape, Rows::each, senders)}};
  if (shape.num_nodes() == 1) return p;
  p.phases.push_back(to_counterparts(shape, Rows::each, senders));
  p.phases.push_back(redistribution(
      shape, senders, [&](int member) { return stands_for(shape, member); }, 1));
  return p;
}

Pattern halo3(const NodeShape& shape, Senders senders) {
  const int per_group = shape.nodes_per_group(), num_groups = shape.num_groups();
  if (num_groups == 1 || shape.num_nodes() % per_group != 0)
    throw ConfigError({.key = "layout.all_to_all",
                       .value = "halo3 on " + to_text(shape),
                       .allowed = "groups of equally many nodes, and more than one of them; else halo"});
  // The node of group `to` that stands for `node`, and the sources whose far rows `member` receives.
  const auto partner = [&](int node, int to) { return to * per_group + node % per_group; };
  const auto from_far = [&](int member) {
    std::vector<int> out;
    for (const int source : stands_for(shape, member)) {
      const int node = shape.node(source);
      if (shape.group(node) != shape.group(shape.node(member)) &&
          partner(node, shape.group(shape.node(member))) == shape.node(member))
        out.push_back(source);
    }
    return out;
  };
  // Sources whose rows for `node` member sends there in the phase near.
  const auto near_sources = [&](int member) {
    std::vector<int> out = from_far(member);
    out.insert(std::upper_bound(out.begin(), out.end(), member), member);
    return out;
  };

  Phase far{.name = "far"}, near{.name = "near", .after = {1}};
  for (int step = 1; step < num_groups; ++step)
    for (int from = 0; from < shape.size(); ++from) {
      if (!senders.contains(from)) continue;
      const int node = shape.node(from), group = (shape.group(node) + step) % num_groups;
      const int first = shape.first(group * per_group), last_node = (group + 1) * per_group - 1;
      const Members there{.first = first, .count = shape.first(last_node) + shape.ranks(last_node) - first};
      far.transfers.push_back(
          {from, shape.counterpart(partner(node, group), shape.local(from)), {{{.first = from}, there}}});
    }
  for (int step = 1; step < per_group; ++step)
    for (int from = 0; from < shape.size(); ++from) {
      if (!senders.contains(from)) continue;
      const int node = shape.node(from), first_node = shape.group(node) * per_group;
      const int other = first_node + (node - first_node + step) % per_group;
      Transfer t{from, shape.counterpart(other, shape.local(from)), {}};
      for (const Members& sources : progressions(near_sources(from)))
        t.parcels.push_back({sources, {.first = shape.first(other), .count = shape.ranks(other)}});
      near.transfers.push_back(std::move(t));
    }
  // What a member holds for its node in the end: what far brought it, and what near did.
  const auto held = [&](int member) {
    std::vector<int> out = from_far(member);
    const int node = shape.node(member), first_node = shape.group(node) * per_group;
    for (int other = first_node; other < first_node + per_group; ++other)
      for (int l = shape.local(member); other != node && l < shape.ranks(other); ++l) {
        const int sender = shape.first(other) + l;
        if (shape.counterpart(node, l) != member) continue;
        const auto more = near_sources(sender);
        out.insert(out.end(), more.begin(), more.end());
      }
    std::sort(out.begin(), out.end());
    return out;
  };
  Pattern p{.name = "halo3", .size = shape.size(), .phases = {inside_node(shape, Rows::each, senders)}};
  p.phases.push_back(std::move(far));
  p.phases.push_back(std::move(near));
  p.phases.push_back(redistribution(shape, senders, held, 2));
  return p;
}

}  // namespace trireme::plan
