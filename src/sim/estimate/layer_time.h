// Works priced on a machine, summed by pass: what one layer or end costs a rank for one micro-batch.
#pragma once
#include <array>

#include "plan/mesh.h"
#include "sim/rates/rates.h"
#include "sim/estimate/described.h"

namespace trireme::sim {

// Seconds, and operations that the host carries out.
struct PassTime {
  double matmul = 0, attention = 0, memory = 0;  // compute, by what limits it
  double gaps = 0;                               // between kernels
  double collectives = 0;                        // in which compute waits
  double beside = 0;                             // collectives that run beside compute
  double launches = 0;                           // not in a captured graph
  // Experts' messages that run beside another micro-batch, where a schedule joins one's forward with another's
  // backward: one after another; how long they keep the links outside and inside nodes busy; and the compute of their
  // own micro-batch that needs none of them (the shared expert, weight gradients of routed ones).
  double exchanges = 0, outside = 0, inside = 0;
  double apart = 0;
  double compute() const { return matmul + attention + memory + gaps; }
  PassTime& operator+=(const PassTime& o);
  PassTime operator*(double by) const;
};

struct LayerTime {
  std::array<PassTime, num_operator_passes> pass;
  PassTime recompute;  // forward works that the backward repeats
};

// What of a model's router an exchange depends on.
RouterShape router_of(const model::ModelSpec& spec);

// Seconds of one work alone, without the gap before it. `strides`: of the setting's layout.
double seconds_alone(const Operator& work, const Setting& setting, const plan::AxisStrides& strides,
                     const Rates& rates);

// `recompute`: the parts to repeat; empty: none. `moe`: whether it is an MoE layer.
LayerTime layer_time(const OperatorList& works, const Setting& setting, const Rates& rates,
                     plan::RecomputeSet recompute, bool moe);

// The wall time of a pass: compute and what it waits for; collectives beside compute cost what `overlap` leaves of them
// and all that is longer than the compute; never less than the host needs to launch it all. Exchanges beside another
// micro-batch are hidden behind their own one's compute here: schedules that do not join cut a micro-batch for that.
double wall_s(const PassTime& pass, const Rates& rates);

// In a schedule that joins (Pangu's Adaptive Pipe Overlap, arXiv 2505.04519; MindSpeed's and DualPipe's order). A slot
// without a partner hides its exchanges behind `apart` only. In a pair each half's exchanges travel while the other
// computes, and share links: those outside and those inside nodes work at the same time. What `overlap` leaves of what
// is hidden is the contention.
double alone_s(const PassTime& pass, const Rates& rates);
double pair_s(const PassTime& forward, const PassTime& backward, const Rates& rates);
// Never above the sum of slots and pairs that together do what `sum` holds.
double joined_lower_bound_s(const PassTime& sum, const Rates& rates);

}  // namespace trireme::sim
