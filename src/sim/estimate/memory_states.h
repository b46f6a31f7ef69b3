// What a stage's rank holds whatever the micro-batch: parameters, gradients, optimizer state and the buffers that live
// as long as the process.
#pragma once
#include "model/layer_range.h"
#include "sim/estimate/memory_weights.h"

namespace trireme::sim {

// Ranks that hold the same parameters of a stage (with cp: they split the sequence), and how many share one set of
// shards.
struct DataRanks {
  int dense = 1, expert = 1;
  int dense_shards = 1, expert_shards = 1;
};
DataRanks data_ranks(const Setting& setting);

struct StateBytes {
  double parameters = 0, gradients = 0, master = 0, moments = 0;
  double gathered = 0;  // full parameters of the layers in use, where parameters are sharded
  double reduced = 0;   // full gradients on their way to their shards
  double float8_weights = 0;
  double unused_gradients = 0;     // model::Kernels::unused_weight_gradients
  double workspaces = 0;           // of libraries
  double step = 0;                 // beside all that, during the optimizer step only
  double host = 0;                 // optimizer state in host memory
  model::WeightElements elements;  // of the rank, before sharding over data ranks
  double held() const { return parameters + gradients + master + moments; }
  double total() const { return held() + gathered + reduced + float8_weights + unused_gradients + workspaces; }
};

// `exact`: optimizer state by whole matrices as the longest-first assignment of matrices to owners leaves the heaviest;
// else its lower bound, without allocating memory. Pieces: of one stage, in its order.
StateBytes state_bytes(WeightTable& table, const model::LayerRange* pieces, int num_pieces, bool exact);

// What lies outside of the framework's allocator: contexts and libraries, and the communicators that a rank belongs to.
struct OutsideBytes {
  double context = 0, communicators = 0, all_to_all = 0;
  double total() const { return context + communicators + all_to_all; }
};
OutsideBytes outside_bytes(const Setting& setting, const model::Kernels& kernels);

}  // namespace trireme::sim
