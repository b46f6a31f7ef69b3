// What a rank does in a layer for one micro-batch, as values that a machine's parameters price: matmuls, attention,
// passes over memory, collectives. Sizes only; no seconds.
#pragma once
#include <array>
#include <cstdint>

#include "base/axis.h"
#include "sim/estimate/setting.h"

namespace trireme::sim {

enum class WorkKind : std::uint8_t { matmul, attention, memory, collective };
enum class WorkPass : std::uint8_t { forward, input_gradient, weight_gradient };
inline constexpr int num_work_passes = 3;

// Which part of a layer it belongs to: what recomputation and graph capture select by.
enum class Part : std::uint8_t {
  norm,
  projection,
  mla_up,
  core,
  mlp,
  activation,
  router,
  permute,
  exchange,
  experts,
  head
};

enum class CollectiveKind : std::uint8_t { all_gather, reduce_scatter, all_reduce, all_to_all, exchange, send };

struct Work {
  const char* what = "";
  WorkKind kind = WorkKind::memory;
  WorkPass pass = WorkPass::forward;
  Part part = Part::norm;
  bool narrow = false;         // matmul: in the setting's compute format; else in 16 bits
  bool beside = false;         // collective: the layout runs it beside compute
  bool apart = false;          // compute that can run while its own layer's rows travel
  double m = 0, n = 0, k = 0;  // matmul: of one group
  double groups = 1;
  double flops = 0;     // of matmul and attention
  double bytes = 0;     // memory: read and written; of a matmul: its operands and result
  double launches = 1;  // operations of the framework that the host carries out
  double kernels = 1;   // on the device
  CollectiveKind collective = CollectiveKind::all_gather;
  Axis axis = Axis::tp;  // of the ranks that take part
  double message = 0;  // bytes. all_gather, reduce_scatter: of the whole tensor; all_reduce: of each rank's;
                       // all_to_all, exchange: what a rank sends in all; send: of the message
};

// No heap: a layer has at most this many.
struct WorkList {
  static constexpr int capacity = 160;
  std::array<Work, capacity> items;
  int size = 0;
  void add(const Work& work);
  const Work* begin() const { return items.data(); }
  const Work* end() const { return items.data() + size; }
};

// Tokens of a micro-batch on a rank: after context parallelism, and where sequence parallelism splits them.
struct TokenCounts {
  double attention = 0;  // sequences * length / cp
  double residual = 0;   // of norms and residuals: / tp with sequence parallelism
};
TokenCounts token_counts(const Setting& setting);

// All passes of one layer; of MTP layers (num_layers and up) without their projections.
void add_layer_work(const Setting& setting, int layer, WorkList& out);
void add_embedding_work(const Setting& setting, WorkList& out);
void add_head_work(const Setting& setting, WorkList& out);
void add_mtp_projection_work(const Setting& setting, WorkList& out);

// Whether recomputation runs a part's forward again.
bool recomputes(const plan::RecomputeSet& set, Part part, bool moe_layer);

}  // namespace trireme::sim
