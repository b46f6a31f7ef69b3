// Works priced on a machine, summed by pass: what one layer or end costs a rank for one micro-batch.
#pragma once
#include <array>

#include "sim/estimate/machine.h"
#include "sim/estimate/work.h"

namespace trireme::sim {

// Seconds, and kernels that the host launches.
struct PassTime {
  double matmul = 0, attention = 0, memory = 0;  // compute, by what limits it
  double gaps = 0;                               // between kernels
  double collectives = 0;                        // in which compute waits
  double beside = 0;                             // collectives that run beside compute
  double launches = 0;                           // not in a captured graph
  double compute() const { return matmul + attention + memory + gaps; }
  PassTime& operator+=(const PassTime& o);
  PassTime operator*(double by) const;
};

struct LayerTime {
  std::array<PassTime, num_work_passes> pass;
  PassTime recompute;  // forward works that the backward repeats
};

// Seconds of one work alone, without the gap before it.
double price(const Work& work, const Setting& setting, const Machine& machine);

// `recompute`: the parts to repeat; empty: none. `moe`: whether it is an MoE layer.
LayerTime layer_time(const WorkList& works, const Setting& setting, const Machine& machine,
                     plan::RecomputeSet recompute, bool moe);

// The wall time of a pass: compute and what it waits for; collectives beside compute cost what `overlap` leaves of them
// and all that is longer than the compute; never less than the host needs to launch it all.
double wall_s(const PassTime& pass, const Machine& machine);

}  // namespace trireme::sim
