// One thing that a device does in a layer for one micro-batch, as a value that rates price: a matmul, attention, a pass
// over memory, a collective. Sizes only; no seconds.
#pragma once
#include <cstdint>

#include "base/axis.h"
#include "base/errors.h"
#include "model/description/room.h"
#include "model/segment.h"

namespace trireme::model {

enum class OperatorKind : std::uint8_t { matmul, attention, memory, collective };
enum class OperatorPass : std::uint8_t { forward, input_gradient, weight_gradient };
inline constexpr int num_operator_passes = 3;

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

struct Operator {
  const char* what = "";
  OperatorKind kind = OperatorKind::memory;
  OperatorPass pass = OperatorPass::forward;
  Part part = Part::norm;
  CollectiveKind collective = CollectiveKind::all_gather;
  Axis axis = Axis::tp;        // of a collective
  bool narrow = false;         // matmul: in the precision's compute format; else in 16 bits
  bool beside = false;         // collective: the layout runs it beside compute
  bool apart = false;          // compute that can run while its own layer's rows travel
  bool early = false;  // of a backward pass, but run in the forward: a loss in chunks makes its gradient at once
  Segment segment = Segment::none;
  double m = 0, n = 0, k = 0;  // matmul: of one group, m x k times k x n; a weight gradient's k are tokens
  double groups = 1;
  double flops = 0;     // of matmul and attention
  double sequence = 0, heads = 0;  // of attention: heads of all sequences
  double head_dim = 0;             // of keys or values, whichever are narrower
  double bytes = 0;     // memory: read and written; of a matmul: its operands and result
  double launches = 1;  // operations of the framework that the host carries out
  double kernels = 1;   // on the device
  double message = 0;  // bytes. all_gather, reduce_scatter: of the whole tensor; all_reduce: of each rank's;
                       // all_to_all, exchange: what a rank sends in all; send: of the message
};

// No heap: a layer has at most this many.
struct OperatorList {
  static constexpr int capacity = 160;
  Room<Operator, capacity> items;
  int size = 0;
  void add(const Operator& op) {
    TRIREME_CHECK(size < capacity, "a layer of more than {} operators", capacity);
    items[size++] = op;
  }
  Operator& last() { return items[size - 1]; }
  const Operator* begin() const { return items.begin(); }
  const Operator* end() const { return items.begin() + size; }
};

}  // namespace trireme::model
