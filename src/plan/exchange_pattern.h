// The all-to-all of a plan's experts, as the value that `sim` prices and `parallel` runs.
#pragma once
#include <string>
#include <vector>

#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/plan.h"

namespace trireme::plan {

// Which members of a rank's group share a host, and which of these hosts a switch. One node where the mesh knows no hosts.
// Switches are left out where the group's hosts are not evenly apart from the first of a switch on.
NodeShape node_shape(const Mesh& mesh, const GroupKind& kind, int rank);

// Every different one of the mesh's ep groups.
std::vector<NodeShape> ep_shapes(const Mesh& mesh);

// Of the ep group of `rank`. ConfigError (key layout.all_to_all) for a name that is unknown or does not fit its hosts.
Pattern exchange_pattern(const Plan& plan, int rank);

// Patterns that every ep group of the mesh can run.
std::vector<std::string> fitting_patterns(const Mesh& mesh);

}  // namespace trireme::plan
