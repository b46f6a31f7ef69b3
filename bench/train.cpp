// Tokens a second of a whole training step (forward, backward, AdamW) in one process, on random tokens: JSON lines.
// bench/peers/run.py runs it in turn with other software at the same shapes. --profile adds the time of each segment.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "model/parameters.h"
#include "nn/single_device.h"
#include "train/optim/adamw.h"

namespace {

using namespace trireme;
using model::Segment;
using Clock = std::chrono::steady_clock;

// Processor time of this process: with one thread it tells what a step costs on a machine that is not quiet.
double processor_s() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Shape {
  std::int64_t vocab = 256;
  int experts = 16, top_k = 4, width = 128;
};

// All: hidden 256, 4 layers, 8 heads and 2 key/value heads of 32, sequence 256, QK norm, untied head.
// bench/peers/shapes.py has the same list.
const std::map<std::string, Shape> shapes{
    {"base", {}},
    {"large_vocab", {.vocab = 32000}},
    {"fine", {.experts = 64, .top_k = 8, .width = 64}},
    {"fine_narrow", {.experts = 64, .top_k = 8, .width = 32}},
};

constexpr std::int64_t sequence_length = 256;

model::ModelSpec spec_of(const Shape& shape) {
  model::ModelSpec s;
  s.vocab_size = shape.vocab;
  s.hidden = 256;
  s.num_layers = 4;
  s.attention = {.num_heads = 8, .num_kv_heads = 2, .head_dim = 32, .qk_norm = true, .rope_theta = 1e6};
  s.moe.num_experts = shape.experts;
  s.moe.expert_ffn = shape.width;
  s.moe.router.top_k = shape.top_k;
  return s;
}

nn::Batch random_batch(std::int64_t sequences, std::int64_t vocab, at::Generator generator) {
  const at::Tensor tokens = at::randint(0, vocab, {sequences, sequence_length + 1}, generator, at::kLong);
  nn::Batch batch;
  batch.tokens_BS = tokens.narrow(1, 0, sequence_length).contiguous();
  batch.targets_BS = tokens.narrow(1, 1, sequence_length).contiguous();
  batch.weights_BS = at::ones({sequences, sequence_length});
  batch.positions_BS = at::arange(sequence_length).expand({sequences, sequence_length}).contiguous();
  batch.documents_BS = at::zeros({sequences, sequence_length}, at::kLong);
  return batch;
}

// Seconds of each segment's passes over the timed steps.
class Profile {
 public:
  template <class Work>
  auto time(Segment segment, const char* pass, const Work& work) {
    const auto start = Clock::now();
    const double processor = processor_s();
    auto result = work();
    Time& time = times_[{pass, model::name_of(segment)}];
    time.wall += std::chrono::duration<double>(Clock::now() - start).count();
    time.processor += processor_s() - processor;
    return result;
  }
  void clear() { times_.clear(); }
  double sum(const std::string& pass) const {
    double total = 0;
    for (const auto& [key, time] : times_)
      if (key.first == pass) total += time.wall;
    return total;
  }
  struct Time {
    double wall = 0, processor = 0;
  };
  const std::map<std::pair<std::string, std::string>, Time>& times() const { return times_; }

 private:
  std::map<std::pair<std::string, std::string>, Time> times_;
};

// A step's forward and backward, as nn::forward_backward does it, with each segment timed. Returns the loss sum.
double forward_backward(nn::Model& model, const nn::Batch& batch, double seed, Profile& profile) {
  const model::ModelSpec& spec = model.spec();
  std::vector<nn::Saved> saved;
  double loss = 0;
  const auto run = [&](Segment segment, int layer, const nn::Boundary& in) {
    nn::Model::Forward f =
        profile.time(segment, "forward", [&] { return model.forward_saving(segment, layer, in, batch, seed); });
    if (f.out.loss.defined()) loss = f.out.loss.item<double>();
    saved.push_back(std::move(f.saved));
    return std::move(f.out);
  };
  nn::Boundary b = run(Segment::embed, -1, {});
  for (int layer = 0; layer < spec.num_layers; ++layer)
    for (const Segment segment : model::computing_segments(spec, layer)) {
      if (segment == Segment::experts) b.received_counts_PE = b.routing->counts_E;
      b = run(segment, layer, b);
    }
  run(Segment::head, -1, b);
  nn::Boundary gradient;
  while (!saved.empty()) {
    nn::Saved last = std::move(saved.back());
    saved.pop_back();
    gradient = profile.time(last.segment, "backward", [&] { return model.backward(std::move(last), gradient, {}); });
  }
  return loss;
}

struct Options {
  std::string shape = "base";
  int steps = 10, warmup = 3, threads = 2;
  std::int64_t batch = 8;
  bool profile = false, reference = false;
};

void run(const Options& o) {
  at::set_num_threads(o.threads);
  const model::ModelSpec spec = spec_of(shapes.at(o.shape));
  nn::Model model(spec, nn::whole_model(spec), {.reference = o.reference});
  model.initialise(1);
  std::int64_t count = 0;
  for (nn::Parameter* p : model.parameters()) {
    p->grad = at::zeros(p->value.sizes());
    count += p->value.numel();
  }
  train::AdamW optimizer(model.parameters(), {});
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
  const std::int64_t tokens = o.batch * sequence_length;
  Profile profile;
  std::vector<double> steps, processor, optimizer_s, losses;
  for (int i = 0; i < o.warmup + o.steps; ++i) {
    const nn::Batch batch = random_batch(o.batch, spec.vocab_size, generator);
    if (i == o.warmup) profile.clear();
    const auto start = Clock::now();
    const double processor_start = processor_s();
    losses.push_back(forward_backward(model, batch, 1.0 / static_cast<double>(tokens), profile) /
                     static_cast<double>(tokens));
    const auto middle = Clock::now();
    optimizer.step(1e-4);
    for (nn::Parameter* p : model.parameters()) p->grad.zero_();
    const auto end = Clock::now();
    if (i < o.warmup) continue;
    steps.push_back(std::chrono::duration<double>(end - start).count());
    processor.push_back(processor_s() - processor_start);
    optimizer_s.push_back(std::chrono::duration<double>(end - middle).count());
  }
  const auto median = [](std::vector<double> v) {
    std::sort(v.begin(), v.end());
    return v[v.size() / 2];
  };
  const double step = median(steps);
  std::cout << nlohmann::json{{"bench", "train"},
                              {"software", "trireme"},
                              {"shape", o.shape},
                              {"threads", o.threads},
                              {"tokens", tokens},
                              {"parameters", count},
                              {"steps", o.steps},
                              {"tokens_per_s", static_cast<double>(tokens) / step},
                              {"step_ms", step * 1e3},
                              {"processor_ms", median(processor) * 1e3},
                              {"forward_ms", profile.sum("forward") / o.steps * 1e3},
                              {"backward_ms", profile.sum("backward") / o.steps * 1e3},
                              {"optimizer_ms", median(optimizer_s) * 1e3},
                              {"model_GFLOPS", model::training_flops_per_token(spec, sequence_length) *
                                                   static_cast<double>(tokens) / step / 1e9},
                              {"loss_first", losses.front()},
                              {"loss_last", losses.back()}}
            << std::endl;
  if (!o.profile) return;
  for (const auto& [key, time] : profile.times())
    std::cout << nlohmann::json{{"bench", "train_profile"},
                                {"shape", o.shape},
                                {"pass", key.first},
                                {"segment", key.second},
                                {"wall_ms", time.wall / o.steps * 1e3},
                                {"processor_ms", time.processor / o.steps * 1e3}}
              << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app{"Training throughput of Trireme in one process"};
  std::vector<std::string> names;
  for (const auto& [name, shape] : shapes) names.push_back(name);
  app.add_option("--shape", o.shape)->check(CLI::IsMember(names));
  app.add_option("--steps", o.steps)->check(CLI::PositiveNumber);
  app.add_option("--warmup", o.warmup);
  app.add_option("--threads", o.threads)->check(CLI::PositiveNumber);
  app.add_option("--batch", o.batch, "sequences")->check(CLI::PositiveNumber);
  app.add_flag("--profile", o.profile, "also the time of each segment");
  app.add_flag("--reference", o.reference, "the plain operators instead of the fused kernels");
  CLI11_PARSE(app, argc, argv);
  run(o);
  return 0;
}
