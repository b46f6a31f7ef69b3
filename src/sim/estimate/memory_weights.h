// The parameters of a stage's rank by matrix, as its shard of a layer holds them. Tensor ranks split heads, widths and
// vocabulary; norms, routers and latent projections are whole on each; routed experts lie over ep and etp.
#pragma once
#include "model/kernels.h"
#include "sim/estimate/room.h"
#include "sim/estimate/setting.h"

namespace trireme::sim {

enum class WeightKind { matrix, table, vector };   // table: of the vocabulary or of positions; looked up, or the head
enum class WeightPlace { whole, tensor, expert };  // on every tensor rank; split over tp; a rank's own experts

struct Weight {
  const char* name = "";
  double rows = 0, columns = 1;  // of one, on this rank
  double count = 1;              // alike on this rank: its experts
  WeightKind kind = WeightKind::matrix;
  WeightPlace place = WeightPlace::whole;
  bool accumulates = true;  // its gradient goes straight into the accumulated one (Megatron's fused accumulation)
  double elements() const { return rows * columns * count; }
};

// A fixed-size list: a layer has at most this many kinds of weights.
struct WeightList {
  static constexpr int capacity = 40;
  Room<Weight, capacity> items;
  int size = 0;
  void add(const Weight& w);
  const Weight* begin() const { return items.begin(); }
  const Weight* end() const { return items.begin() + size; }
};

WeightList layer_weights(const Setting& setting, int layer);
// Embedding (with learned positions), head with the final norm, and what an MTP block has beside its layer.
WeightList embedding_weights(const Setting& setting, const model::Kernels& kernels);
WeightList head_weights(const Setting& setting, const model::Kernels& kernels, bool own_matrix);
WeightList mtp_weights(const Setting& setting);

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
double accumulated_elements(const WeightList& list);

// Lists of a setting's layers, each kind made once. Holds references.
class WeightTable {
 public:
  WeightTable(const Setting& setting, const model::Kernels& kernels);
  struct Entry {
    model::Mixer mixer;
    model::FeedForward feed_forward;
    int compression;
    int number;  // of this kind among the kinds
    WeightList list;
    WeightElements elements;
    double accumulated;  // elements of matrices whose gradients are accumulated where they are made
  };
  const Entry& layer(int layer);

  const Setting& setting;
  const model::Kernels& kernels;

 private:
  static constexpr int capacity = 12;
  Room<Entry, capacity> entries_;
  int num_entries_ = 0;
};

}  // namespace trireme::sim
