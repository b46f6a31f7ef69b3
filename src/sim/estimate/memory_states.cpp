#include "sim/estimate/memory_states.h"

#include <algorithm>
#include <queue>
#include <vector>

#include "plan/mesh.h"

namespace trireme::sim {

namespace {

using model::Weight;
using model::WeightElements;
using model::WeightKind;
using model::WeightList;
using model::WeightPlace;
using plan::Sharding;

const WeightList& list_of(const WeightList& list) {
  return list;
}
const WeightList& list_of(const WeightTable::Entry& layer) {
  return layer.list;
}

struct Shapes {  // of gradients that are never read; one buffer for each
  static constexpr int capacity = 64;
  double rows[capacity], columns[capacity];
  int size = 0;
  double bytes = 0;
  void see(const WeightList& list, double element) {
    for (const Weight& w : list) {
      if (w.kind == WeightKind::vector || !w.accumulates) continue;
      bool known = false;
      for (int i = 0; i < size && !known; ++i) known = rows[i] == w.rows && columns[i] == w.columns;
      if (known || size == capacity) continue;
      rows[size] = w.rows, columns[size++] = w.columns;
      bytes += w.rows * w.columns * element;
    }
  }
};

struct Walk {
  const Setting& setting;
  const model::Kernels& kernels;
  Shapes shapes;
  WeightElements total;
  double float8 = 0;  // elements of matrices

  unsigned kinds_seen = 0;  // bit by WeightTable::Entry::number: a kind's shapes are looked at once
  void see(const WeightTable::Entry& layer) {
    total += layer.elements;
    float8 += layer.accumulated;
    if (!kernels.unused_weight_gradients || (kinds_seen >> layer.number & 1)) return;
    kinds_seen |= 1u << layer.number;
    shapes.see(layer.list, setting.precision.weight_bytes);
  }
  void see(const WeightList& list) {
    total += elements(list);
    float8 += accumulated_elements(list);
    if (kernels.unused_weight_gradients) shapes.see(list, setting.precision.weight_bytes);
  }

  // A window of consecutive blocks of layers, for gathered parameters: elements of the largest.
  static constexpr int max_window = 8;
  double window[max_window] = {};
  int seen = 0;
  double gathered_bytes = 0, reduced_bytes = 0;
  void block(const WeightElements& e, bool dense_sharded, bool expert_sharded, bool gradients) {
    const double full = (dense_sharded ? e.dense : 0) + (expert_sharded ? e.expert : 0);
    window[seen % max_window] = full;
    ++seen;
    const auto sum_of = [&](int count) {
      double sum = 0;
      for (int i = 0; i < std::min({count, seen, max_window}); ++i) sum += window[(seen - 1 - i) % max_window];
      return sum;
    };
    gathered_bytes = std::max(gathered_bytes, sum_of(setting.layout.overlap.parameters ? kernels.gathered_layers : 1) *
                                                  setting.precision.gather_bytes);
    if (gradients)
      reduced_bytes = std::max(reduced_bytes, sum_of(setting.layout.overlap.gradients ? kernels.reduced_layers : 1) *
                                                  setting.precision.reduce_bytes);
  }
};

double longest_first(std::vector<double> sizes, int owners) {
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  std::priority_queue<double, std::vector<double>, std::greater<>> loads;
  for (int i = 0; i < owners; ++i) loads.push(0);
  double heaviest = 0;
  for (double s : sizes) {
    const double load = loads.top() + s;
    loads.pop();
    loads.push(load);
    heaviest = std::max(heaviest, load);
  }
  return heaviest;
}

// Elements of optimizer state on the heaviest owner: matrices whole, tables and vectors in flat shards.
template <class EachList>
double owned(const EachList& each, bool expert, int shards, bool exact) {
  if (shards <= 1) {
    double all = 0;
    each([&](const auto& weights) {
      all += expert ? elements(list_of(weights)).expert : elements(list_of(weights)).dense;
    });
    return all;
  }
  double flat = 0, sum = 0, largest = 0;
  std::vector<double> sizes;
  each([&](const auto& weights) {
    for (const Weight& w : list_of(weights)) {
      if ((w.place == WeightPlace::expert) != expert) continue;
      if (w.kind != WeightKind::matrix) {
        flat += w.elements();
        continue;
      }
      sum += w.elements();
      largest = std::max(largest, w.rows * w.columns);
      if (exact)
        for (int i = 0; i < static_cast<int>(w.count); ++i) sizes.push_back(w.rows * w.columns);
    }
  });
  return flat / shards + (exact ? longest_first(std::move(sizes), shards) : std::max(sum / shards, largest));
}

}  // namespace

DataRanks data_ranks(const Setting& setting) {
  const auto& l = setting.layout;
  plan::Mesh mesh = plan::mesh_of(l);
  if (l.dp == 0) mesh.dp = std::max(1, setting.num_devices / std::max(1, l.pp * l.tp * l.cp));
  DataRanks out;
  out.dense = mesh.dp * mesh.cp;
  out.expert = mesh.edp();
  out.dense_shards = l.shard_degree > 0 ? std::min(l.shard_degree, out.dense) : out.dense;
  out.expert_shards = l.expert_shard_degree > 0 ? std::min(l.expert_shard_degree, out.expert) : out.expert;
  return out;
}

StateBytes state_bytes(WeightTable& table, const model::LayerRange* pieces, int num_pieces, bool exact) {
  const Setting& setting = table.setting;
  const model::Kernels& kernels = table.kernels;
  const Precision& p = setting.precision;
  const DataRanks ranks = data_ranks(setting);
  const Sharding level = setting.layout.sharding;
  bool embed = false, head = false;
  for (int i = 0; i < num_pieces; ++i) embed = embed || pieces[i].embed, head = head || pieces[i].head;

  // Every list of weights of the stage, in its order.
  const auto each = [&](auto&& use) {
    for (int i = 0; i < num_pieces; ++i) {
      if (pieces[i].embed) use(table.embedding());
      for (int l = 0; l < pieces[i].num_layers; ++l) use(table.layer(pieces[i].first_layer + l));
      if (!pieces[i].head) continue;
      for (int b = 0; b < setting.model.mtp_blocks(); ++b) {
        use(table.layer(setting.model.num_layers + b));
        use(table.mtp());
      }
      // A tied head is the embedding's matrix: its own copy only where the embedding is on another stage.
      use(table.head(!(setting.model.tied_embeddings && embed)));
    }
  };
  const bool gathers = level >= Sharding::parameters, reduces = level >= Sharding::gradients;
  Walk walk{.setting = setting, .kernels = kernels};
  each([&](const auto& weights) { walk.see(weights); });
  if (gathers || reduces)
    each([&](const auto& weights) {
      walk.block(elements(list_of(weights)), ranks.dense_shards > 1, ranks.expert_shards > 1, reduces);
    });

  const double dense = walk.total.dense, expert = walk.total.expert;
  const auto sharded = [&](double bytes, Sharding from) {
    if (level < from) return bytes * (dense + expert);
    return bytes * (dense / ranks.dense_shards + expert / ranks.expert_shards);
  };
  StateBytes out;
  out.elements = walk.total;
  out.parameters = sharded(p.weight_bytes, Sharding::parameters);
  out.gradients = sharded(p.gradient_bytes, Sharding::gradients);
  out.master = sharded(p.master_bytes, Sharding::optimizer);
  out.moments = sharded(p.moment_bytes, Sharding::optimizer);
  if (setting.layout.matrix_owners && level >= Sharding::optimizer) {
    const double own = owned(each, false, ranks.dense_shards, exact) + owned(each, true, ranks.expert_shards, exact);
    out.moments = p.moment_bytes * own;
    out.master = p.master_bytes * own;
  }
  if (setting.execution.frozen_weights) out.gradients = out.master = out.moments = 0;
  if (p.master_bytes > 0 && p.gradient_bytes < 4 &&
      !setting.execution.frozen_weights)  // gradients are widened for the update
    out.step =
        (4 - p.gradient_bytes) *
        (level >= Sharding::optimizer ? dense / ranks.dense_shards + expert / ranks.expert_shards : dense + expert);
  if (setting.layout.swap.has(plan::Swap::optimizer)) {
    out.host = out.master + out.moments;
    const double slice = out.host / std::max(1, kernels.optimizer_slices);
    out.step += 2 * slice;  // one in work, one on its way
    out.master = out.moments = 0;
  }
  if (gathers) out.gathered = walk.gathered_bytes;
  if (reduces) out.reduced = walk.reduced_bytes;
  const double kept_input = model::kept_input_bytes(p);
  if (kept_input < p.activation_bytes && kernels.caches_float8_weights && p.weight_bytes > kept_input)
    out.float8_weights = 2 * kept_input * walk.float8;
  if (kernels.unused_weight_gradients) out.unused_gradients = walk.shapes.bytes;
  out.workspaces = kernels.gemm_workspace_bytes + (head ? kernels.head_gemm_workspace_bytes : 0) +
                   (setting.model.moe.num_experts > 0 ? kernels.grouped_gemm_workspace_bytes : 0);
  const auto& attention = setting.model.attention;
  if (setting.model.learned_positions == 0)
    out.workspaces += kernels.rotary_table_bytes * double(setting.batch.sequence_length) / setting.layout.cp *
                      (attention.kind == model::AttentionKind::latent ? attention.qk_rope_dim : attention.head_dim);
  return out;
}

OutsideBytes outside_bytes(const Setting& setting, const model::Kernels& kernels) {
  const auto& l = setting.layout;
  const DataRanks ranks = data_ranks(setting);
  const bool moe = setting.model.moe.num_experts > 0;
  int count = setting.num_devices > 1 ? 1 : 0;  // the world
  for (int degree : {l.pp, l.tp, l.cp, ranks.dense, l.tp * ranks.dense})
    if (degree > 1) ++count;
  if (moe)
    for (int degree : {l.ep, l.etp, ranks.expert})
      if (degree > 1) ++count;
  if (l.pp > 1 && setting.model.tied_embeddings) ++count;
  return {.context = kernels.context_bytes,
          .communicators = count * kernels.communicator_bytes,
          .all_to_all = moe && l.ep > 1 ? kernels.all_to_all_bytes : 0};
}

}  // namespace trireme::sim
