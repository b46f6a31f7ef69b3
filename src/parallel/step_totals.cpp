#include "parallel/step_totals.h"

#include <algorithm>
#include <numeric>

#include <ATen/Functions.h>

#include "base/errors.h"
#include "plan/frozen_parameters.h"

namespace trireme::parallel {
namespace {

enum Loss { loss_sum, aux_sum, z_sum, num_losses };

// All-reduces host numbers in float64: exact for counts.
void reduce(comm::Group& group, std::vector<double>& values, const std::string& operation) {
  if (group.size() == 1 || values.empty()) return;
  const auto host =
      at::from_blob(values.data(), {static_cast<std::int64_t>(values.size())}, at::TensorOptions().dtype(at::kDouble));
  at::Tensor message = host.to(group.device);
  comm::all_reduce(group, message, comm::ReduceOp::sum, operation);
  if (!message.is_same(host)) host.copy_(message);
}

}  // namespace

StepTotals::StepTotals(const StageContext& context)
    : context_(context),
      losses_(at::zeros({num_losses}, at::TensorOptions().dtype(at::kDouble).device(context.device))) {}

void StepTotals::begin() {
  losses_.zero_();
  num_valid_ = num_tokens_ = own_valid_ = own_tokens_ = 0;
  counts_reduced_ = false;
  sums_ = {};
  const auto& chunks = context_.stage().chunks;
  const auto& model = context_.run.model;
  for (const plan::Chunk& chunk : chunks)
    for (int layer = chunk.first_layer; layer < chunk.first_layer + chunk.num_layers; ++layer)
      if (model.is_moe(layer)) sums_.router_counts[layer].assign(model.moe.num_experts, 0.0);
}

void StepTotals::add_batch(const nn::Batch& batch) {
  own_valid_ += batch.weights_BS.sum(at::kDouble).item<double>();
  own_tokens_ += static_cast<double>(batch.documents_BS.ge(0).sum().item<std::int64_t>());
}

void StepTotals::count_tokens(comm::Group& dp, const std::string& operation) {
  std::vector<double> counts{own_valid_, own_tokens_};
  reduce(dp, counts, operation);
  num_valid_ = counts[0];
  num_tokens_ = counts[1];
}

double StepTotals::head_seed() const {
  return num_valid_ > 0 ? 1.0 / num_valid_ : 0.0;
}

double StepTotals::aux_samples() const {
  const double micro_batches = static_cast<double>(context_.plan.num_micro_batches) * context_.plan.mesh.dp;
  if (context_.run.model.moe.router.aux_loss_level == model::AuxLossLevel::micro_batch) return micro_batches;
  return micro_batches * static_cast<double>(context_.run.batch.micro_batch);
}

nn::LossSeeds StepTotals::loss_seeds() const {
  const model::RouterSpec& router = context_.run.model.moe.router;
  return {.aux_loss = router.aux_loss_coefficient / aux_samples(),
          .z_loss = num_tokens_ > 0 ? router.z_loss_coefficient / num_tokens_ : 0.0};
}

void StepTotals::add_outputs(model::Segment segment, int layer, const nn::Boundary& out) {
  const auto add = [&](Loss which, const at::Tensor& value) {
    if (value.defined()) losses_.select(0, which).add_(value.detach());
  };
  add(loss_sum, out.loss);
  add(aux_sum, out.aux_loss);
  add(z_sum, out.z_loss);
  // Later segments of the layer pass the routing on: it is counted where it is made.
  if (segment != model::Segment::attention || !out.routing) return;
  if (const auto at = sums_.router_counts.find(layer); at != sums_.router_counts.end()) {
    TRIREME_CHECK(out.routing->counts_E.size() == at->second.size());
    for (std::size_t e = 0; e < at->second.size(); ++e) at->second[e] += static_cast<double>(out.routing->counts_E[e]);
  }
}

void StepTotals::add_norm(double squared_norm, double stop) {
  sums_.squared_norm = squared_norm;
  sums_.stop = stop;
}

void StepTotals::reduce_counts(comm::Group& dp, const std::string& operation) {
  std::vector<double> counts;
  for (const auto& [layer, of_layer] : sums_.router_counts)
    counts.insert(counts.end(), of_layer.begin(), of_layer.end());
  reduce(dp, counts, operation);
  auto next = counts.begin();
  for (auto& [layer, of_layer] : sums_.router_counts) {
    std::copy(next, next + static_cast<std::ptrdiff_t>(of_layer.size()), of_layer.begin());
    next += static_cast<std::ptrdiff_t>(of_layer.size());
  }
  counts_reduced_ = true;
}

void StepTotals::reduce_metrics(comm::Group& world, const std::string& operation) {
  const model::ModelSpec& model = context_.run.model;
  const at::Tensor losses = losses_.cpu();
  const double* loss = losses.const_data_ptr<double>();
  // Tokens and weights are the same on every stage of a data rank: the one with the head counts them.
  const bool counts_here = context_.stage().chunks.back().head;
  std::vector<double> values{
      loss[loss_sum],     loss[aux_sum], loss[z_sum], counts_here ? own_valid_ : 0.0, counts_here ? own_tokens_ : 0.0,
      sums_.squared_norm, sums_.stop};
  const std::size_t ratios = values.size();
  const auto moe_layers = static_cast<std::size_t>(model.num_moe_layers());
  values.resize(ratios + 2 * moe_layers, 0.0);
  if (counts_reduced_ && context_.plan.mesh.dp_index(context_.rank) == 0)
    for (const auto& [layer, counts] : sums_.router_counts) {
      const double total = std::accumulate(counts.begin(), counts.end(), 0.0);
      const auto highest = std::max_element(counts.begin(), counts.end());
      if (total <= 0) continue;
      const std::size_t at = ratios + static_cast<std::size_t>(layer - model.num_dense_layers);
      values[at] = *highest * static_cast<double>(counts.size()) / total;
      values[at + moe_layers] = static_cast<double>(highest - counts.begin());
    }
  reduce(world, values, operation);
  sums_.loss = values[0];
  sums_.aux_loss = values[1];
  sums_.z_loss = values[2];
  sums_.weight = values[3];
  sums_.tokens = values[4];
  sums_.squared_norm = values[5];
  sums_.stop = values[6];
  const auto busiest = values.end() - static_cast<std::ptrdiff_t>(moe_layers);
  sums_.load_ratio.assign(busiest - static_cast<std::ptrdiff_t>(moe_layers), busiest);
  sums_.busiest_expert.assign(busiest, values.end());
  sums_.aux_samples = aux_samples();
}

void StepTotals::update_selection_bias(nn::Model& model) const {
  const model::RouterSpec& router = context_.run.model.moe.router;
  if (!router.selection_bias) return;
  const plan::FrozenParameters frozen(context_.run.train.freeze);
  for (const auto& [layer, counts] : sums_.router_counts) {
    if (frozen.has(plan::selection_bias_name(layer))) continue;
    at::Tensor& bias = model.selection_bias(layer);
    const double mean = std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
    std::vector<float> step(counts.size());
    for (std::size_t e = 0; e < counts.size(); ++e)
      step[e] = static_cast<float>(counts[e] < mean   ? router.selection_bias_rate
                                   : counts[e] > mean ? -router.selection_bias_rate
                                                      : 0.0);
    bias.add_(at::tensor(step).to(bias.device()));
  }
}

}  // namespace trireme::parallel
