#include "parallel/tiny_run.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nn/counting_allocator.h"
#include "parallel/thread_policy.h"
#include "support/rank_threads.h"

namespace trireme::testing {

using model::Segment;

namespace {

// Ranks are threads that share the cores: none may have an OpenMP team of its own.
class OneThreadARank : public ::testing::Environment {
 public:
  void SetUp() override {
    at::set_num_threads(1);
    parallel::use_batch_scheduling();
    nn::install_counting_allocator();
  }
};
const auto* const one_thread_a_rank = ::testing::AddGlobalTestEnvironment(new OneThreadARank);

}  // namespace

plan::RunSpec tiny_run() {
  plan::RunSpec run;
  run.model = {.vocab_size = 99,
               .hidden = 32,
               .num_layers = 4,
               .num_dense_layers = 1,
               .dense_ffn = 48,
               .init_std = 0.2,
               .attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 8, .qk_norm = true},
               .moe = {.num_experts = 8,
                       .expert_ffn = 24,
                       .shared_ffn = 16,
                       .router = {.top_k = 2, .aux_loss_coefficient = 0.05, .z_loss_coefficient = 1e-3}}};
  run.batch = {.sequence_length = 8, .micro_batch = 1, .global_batch = 96};
  run.layout.bucket_MiB = 0.02;  // several buckets a stage
  return run;
}

namespace {

// AdamW in float64 on the values themselves: enough to move the weights; train's own is tested there.
class PlainAdamW {
 public:
  PlainAdamW(nn::Model& model, double learning_rate) : model_(model), rate_(learning_rate) {}

  void step(double scale) {
    const c10::NoGradGuard no_grad;
    ++t_;
    for (nn::Parameter* p : model_.parameters()) {
      auto& [m, v] = moments_[p];
      const at::Tensor g = p->grad.to(at::kDouble) * scale;
      if (!m.defined()) m = at::zeros_like(g), v = at::zeros_like(g);
      m.mul_(0.9).add_(g, 0.1);
      v.mul_(0.95).add_(g * g, 0.05);
      const at::Tensor update = (m / (1 - std::pow(0.9, t_))) / ((v / (1 - std::pow(0.95, t_))).sqrt() + 1e-5);
      p->value.data().sub_((rate_ * update).to(p->value.scalar_type()));
    }
  }

 private:
  nn::Model& model_;
  double rate_;
  int t_ = 0;
  std::map<nn::Parameter*, std::pair<at::Tensor, at::Tensor>> moments_;
};

double clip_scale(double clip, double norm) {
  return clip > 0 && norm > clip ? clip / norm : 1.0;
}

void collect(nn::Model& model, NamedTensors& out) {
  for (nn::Parameter* p : model.parameters())
    for (const nn::Piece& piece : p->pieces) {
      at::Tensor mine = p->piece_grad(piece).to(at::kDouble).clone();
      const auto [at, fresh] = out.try_emplace(piece.spec.name, mine);
      // Replicas hold the very same bits: they received one reduction.
      EXPECT_TRUE(fresh || at->second.equal(mine)) << piece.spec.name << " differs between replicas";
    }
}

void collect_biases(nn::Model& model, NamedTensors& out) {
  if (!model.spec().moe.router.selection_bias) return;
  for (int i = 0; i < model.hosted().layers.num_layers; ++i) {
    const int layer = model.hosted().layers.first_layer + i;
    if (!model.spec().is_moe(layer)) continue;
    const at::Tensor bias = model.selection_bias(layer).to(at::kDouble).clone();
    const auto [at, fresh] = out.try_emplace("bias " + std::to_string(layer), bias);
    EXPECT_TRUE(fresh || at->second.equal(bias)) << "selection bias of layer " << layer << " differs between replicas";
  }
}

}  // namespace

Trace run_single(const plan::RunSpec& run, const TinyOptions& options, int cuts) {
  const model::ModelSpec& spec = run.model;
  nn::Hosted all{.layers = {.num_layers = spec.num_layers, .embed = true, .head = true}};
  for (int e = 0; e < spec.moe.num_experts; ++e) all.experts.push_back(e);
  const at::ScalarType dtype = parallel::to_scalar_type(run.device.dtype);
  nn::Model model(spec, all, {.dtype = dtype, .reference = true});
  model.initialise(run.train.seed);
  if (options.adjust) options.adjust(model);
  for (nn::Parameter* p : model.parameters())
    p->grad = at::zeros(p->value.sizes(), dtype == at::kDouble ? at::kDouble : at::kFloat);
  PlainAdamW optimizer(model, options.learning_rate);

  Trace trace;
  const model::RouterSpec& router = spec.moe.router;
  for (int step = 0; step < options.steps; ++step) {
    const nn::Batch whole = options.batch(run, step, 0, run.batch.global_batch);
    const double weight = whole.weights_BS.sum().item<double>();
    const double tokens = static_cast<double>(whole.documents_BS.ge(0).sum().item<std::int64_t>());
    const double samples =
        router.aux_loss_level == model::AuxLossLevel::sequence ? static_cast<double>(run.batch.global_batch) : cuts;
    for (nn::Parameter* p : model.parameters()) p->grad.zero_();
    double loss = 0, aux_sum = 0, z_sum = 0;
    std::map<int, std::vector<double>> counts;
    for (int cut = 0; cut < cuts; ++cut) {
      const std::int64_t size = run.batch.global_batch / cuts;
      const nn::Batch batch = options.batch(run, step, cut * size, size);
      nn::Boundary b = model.forward(Segment::embed, -1, {}, batch);
      at::Tensor aux = at::zeros({}, at::kDouble), z = at::zeros({}, at::kDouble);
      for (int layer = 0; layer < spec.num_layers; ++layer) {
        b = model.forward(Segment::attention, layer, b, batch);
        if (!spec.is_moe(layer)) {
          b = model.forward(Segment::mlp, layer, b, batch);
          continue;
        }
        if (b.aux_loss.defined()) aux = aux + b.aux_loss.to(at::kDouble);
        if (b.z_loss.defined()) z = z + b.z_loss.to(at::kDouble);
        auto& of_layer = counts[layer];
        of_layer.resize(b.routing->counts_E.size());
        for (std::size_t e = 0; e < of_layer.size(); ++e) of_layer[e] += static_cast<double>(b.routing->counts_E[e]);
        b.received_counts_PE = b.routing->counts_E;
        if (spec.moe.shared_ffn > 0) b = model.forward(Segment::shared, layer, b, batch);
        b = model.forward(Segment::experts, layer, b, batch);
        b = model.forward(Segment::combine, layer, b, batch);
      }
      b = model.forward(Segment::head, -1, b, batch, 1.0 / weight);
      // The head's gradient carries its seed already.
      const at::Tensor total = b.loss.to(at::kDouble) + aux * (router.aux_loss_coefficient / samples) +
                               z * (router.z_loss_coefficient / tokens);
      total.backward();
      loss += b.loss.item<double>();
      aux_sum += aux.item<double>();
      z_sum += z.item<double>();
    }
    if (step == 0) collect(model, trace.gradients);
    double squared = 0;
    for (nn::Parameter* p : model.parameters()) squared += p->grad.to(at::kDouble).pow(2).sum().item<double>();
    trace.losses.push_back(loss / weight);
    trace.aux_losses.push_back(aux_sum / samples);
    trace.z_losses.push_back(z_sum / tokens);
    trace.norms.push_back(std::sqrt(squared));
    trace.router_counts.push_back(counts);
    if (router.selection_bias)
      for (const auto& [layer, of_layer] : counts) {
        // DeepSeek-V3: up where the load is below the mean, down where above.
        double mean = 0;
        for (const double c : of_layer) mean += c / static_cast<double>(of_layer.size());
        for (std::size_t e = 0; e < of_layer.size(); ++e) {
          const double sign = of_layer[e] < mean ? 1.0 : of_layer[e] > mean ? -1.0 : 0.0;
          model.selection_bias(layer)[static_cast<std::int64_t>(e)] += sign * router.selection_bias_rate;
        }
      }
    optimizer.step(clip_scale(options.clip, std::sqrt(squared)));
  }
  collect_biases(model, trace.biases);
  return trace;
}

Trace run_layout(const plan::RunSpec& run, const plan::Mesh& mesh, const TinyOptions& options) {
  plan::Plan plan = plan::make_training_plan(run, mesh);
  if (options.change_plan) options.change_plan(plan);
  EXPECT_THAT(plan::problems(plan), ::testing::IsEmpty());
  Trace trace;
  std::mutex mutex;
  run_mesh(mesh, [&](int rank, comm::Communicator& communicator) {
    const auto model = parallel::make_model(run, plan, rank);
    model->initialise(run.train.seed);
    if (options.adjust) options.adjust(*model);
    const auto buckets = parallel::make_buckets(run, plan, rank, *model);
    PlainAdamW optimizer(*model, options.learning_rate);
    int step = 0;
    parallel::StepHooks hooks;
    hooks.batch = [&](int mb) {
      // Micro-batch mb of data rank d: any bijection will do.
      const std::int64_t place = static_cast<std::int64_t>(mb) * mesh.dp + mesh.dp_index(rank);
      return options.batch(run, step, place * run.batch.micro_batch, run.batch.micro_batch);
    };
    hooks.owned_sum_of_squares = [&] {
      // Dense parameters: the first data rank; experts: the first rank that holds them; a tied embedding: stage 0.
      double sum = 0;
      for (nn::Parameter* p : model->parameters()) {
        if (p->expert ? mesh.edp_index(rank) != 0 : mesh.dp_index(rank) != 0) continue;
        if (p->pieces[0].spec.name == "embed.weight" && mesh.pp_index(rank) != 0) continue;
        sum += p->grad.to(at::kDouble).pow(2).sum().item<double>();
      }
      return sum;
    };
    hooks.optimizer = [&](const parallel::StepSums& sums, double norm) {
      if (step == 0) {
        const std::lock_guard lock(mutex);
        collect(*model, trace.gradients);
      }
      optimizer.step(clip_scale(options.clip, norm));
    };
    parallel::StageRuntime runtime(run, plan, communicator, rank, *model, buckets.get(), hooks);
    for (; step < options.steps; ++step) {
      const parallel::StepResult result = runtime.step();
      const std::lock_guard lock(mutex);
      const auto at = static_cast<std::size_t>(step);
      const auto agree = [&](std::vector<double>& series, double value) {
        if (series.size() == at)
          series.push_back(value);
        else
          EXPECT_EQ(series.at(at), value) << "rank " << rank << ", step " << step;
      };
      agree(trace.losses, result.sums.mean_loss());
      agree(trace.aux_losses, result.sums.mean_aux_loss());
      agree(trace.z_losses, result.sums.mean_z_loss());
      agree(trace.norms, result.gradient_norm);
      // The load that a step reports: rows of the fullest expert over the mean, by layer.
      for (const auto& [layer, counts] : result.sums.router_counts) {
        const double mean = std::accumulate(counts.begin(), counts.end(), 0.0) / static_cast<double>(counts.size());
        EXPECT_NEAR(result.sums.load_ratio.at(static_cast<std::size_t>(layer - run.model.num_dense_layers)),
                    *std::max_element(counts.begin(), counts.end()) / mean, 1e-12);
        EXPECT_EQ(result.sums.busiest_expert.at(static_cast<std::size_t>(layer - run.model.num_dense_layers)),
                  std::max_element(counts.begin(), counts.end()) - counts.begin());
      }
      if (trace.router_counts.size() == at) trace.router_counts.emplace_back();
      for (const auto& [layer, counts] : result.sums.router_counts) trace.router_counts[at][layer] = counts;
    }
    const std::lock_guard lock(mutex);
    collect_biases(*model, trace.biases);
  });
  return trace;
}

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const double difference = (a - b).norm().item<double>(), size = b.norm().item<double>();
  return difference == 0 ? 0 : difference / size;
}

double worst_error(const NamedTensors& a, const NamedTensors& b, std::string* name) {
  double worst = 0;
  for (const auto& [key, value] : b) {
    const auto at = a.find(key);
    EXPECT_NE(at, a.end()) << key << " is missing";
    if (at == a.end()) continue;
    const double error = relative_error(at->second, value);
    if (!(error <= worst)) {
      worst = error;
      if (name != nullptr) *name = key;
    }
  }
  EXPECT_EQ(a.size(), b.size());
  return worst;
}

}  // namespace trireme::testing
