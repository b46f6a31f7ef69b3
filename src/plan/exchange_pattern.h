// The all-to-all of a plan's experts, as the value that `sim` prices and `parallel` runs.
#pragma once
#include <string>
#include <vector>

#include "plan/all_to_all/node_shape.h"
#include "plan/all_to_all/pattern.h"
#include "plan/plan.h"

namespace trireme::plan {

// Which members of a rank's ep group share a host, and which hosts a switch. One node where the mesh knows no hosts.
// Groups of hosts are left out where the ep group does not begin with one.
NodeShape ep_shape(const Mesh& mesh, int rank);

// Every different one of the mesh's ep groups.
std::vector<NodeShape> ep_shapes(const Mesh& mesh);

// Of the ep group of `rank`. ConfigError (key layout.all_to_all) for a name that is unknown or does not fit its hosts.
Pattern exchange_pattern(const Plan& plan, int rank);

// Patterns that every ep group of the mesh can run.
std::vector<std::string> fitting_patterns(const Mesh& mesh);

}  // namespace trireme::plan
