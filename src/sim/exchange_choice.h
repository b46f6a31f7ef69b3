// layout.all_to_all = "auto": which pattern a run's exchanges take.
#pragma once
#include "plan/run_spec.h"
#include "sim/network/choose.h"
#include "sim/rates/rates.h"

namespace trireme::sim {

// All patterns that every ep group of the mesh can run, by the seconds of one micro-batch's dispatch and combine through
// one MoE layer, forward and backward, on the links between the mesh's hosts (on the slowest stage), every expert getting
// an equal share. A pure function. Where nothing is exchanged: flat, 0 s.
Choice choose_exchange(const plan::RunSpec& run, const plan::Mesh& mesh, const Rates& rates);

}  // namespace trireme::sim
