// The weights of a segment as a rank's shard holds them. Tensor ranks split heads, widths and vocabulary; norms,
// routers and latent projections are whole on each; routed experts lie over ep and etp.
#pragma once
#include <cstdint>

#include "base/errors.h"
#include "model/description/room.h"
#include "model/segment.h"

namespace trireme::model {

enum class WeightKind : std::uint8_t { matrix, table, vector };  // table: of the vocabulary or of positions; looked up,
                                                                 // or the head. vector: also matrices of rare parts,
                                                                 // which optimizers take element by element
enum class WeightPlace : std::uint8_t { whole, tensor, expert };  // on every tensor rank; split over tp; a rank's own
                                                                  // experts

// What a count of parameters by part counts it under (ParameterParts).
enum class WeightRole : std::uint8_t {
  embedding,
  attention,
  norms,
  router,
  routed_experts,
  shared_experts,
  dense,
  mtp,
  head
};

struct Weight {
  const char* name = "";
  double rows = 0, columns = 1;  // of one, on this rank
  double count = 1;              // alike on this rank: its experts
  WeightKind kind = WeightKind::matrix;
  WeightPlace place = WeightPlace::whole;
  WeightRole role = WeightRole::attention;
  bool accumulates = true;  // its gradient goes straight into the accumulated one (Megatron's fused accumulation)
  bool multiplies = true;   // tokens (of an expert: the rows that it gets) are multiplied with it
  Segment segment = Segment::none;
  double elements() const { return rows * columns * count; }
};

// A fixed-size list: a layer has at most this many kinds of weights.
struct WeightList {
  static constexpr int capacity = 48;
  Room<Weight, capacity> items;
  int size = 0;
  void add(const Weight& w) {
    TRIREME_CHECK(size < capacity, "a layer has more kinds of weights than expected");
    items[size++] = w;
  }
  const Weight* begin() const { return items.begin(); }
  const Weight* end() const { return items.begin() + size; }
};

// Elements by who shards them.
struct WeightElements {
  double dense = 0, expert = 0;
  double total() const { return dense + expert; }
  WeightElements& operator+=(const WeightElements& o) {
    dense += o.dense, expert += o.expert;
    return *this;
  }
};
WeightElements elements(const WeightList& list);
double accumulated_elements(const WeightList& list);  // of matrices whose gradients are accumulated where they are made

}  // namespace trireme::model
