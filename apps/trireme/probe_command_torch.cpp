#include <unistd.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/units.h"
#include "model/model_spec.h"
#include "nn/probe/segment_probe.h"
#include "parallel/thread_policy.h"
#include "plan/all_to_all/generators.h"
#include "plan/run_spec.h"
#include "platform/host_memory.h"
#include "platform/platform_file.h"
#include "sim/memory_cost.h"
#include "sim/price.h"
#include "sim/rates/probed_rates.h"
#include "trireme/all_to_all_probe.h"
#include "trireme/commands.h"
#include "trireme/launch.h"
#include "trireme/named_outputs.h"
#include "trireme/memory_failure.h"
#include "trireme/option_rules.h"
#include "trireme/positive_number.h"
#include "trireme/rank_probe.h"
#include "trireme/standard_output.h"

namespace trireme::apps {

namespace {

using platform::Source;

struct Options {
  std::string out = "platform.toml", run;
  std::vector<std::string> set;
  int ranks = 0;
  bool quick = false, json = false, save_race = false;
  bool links = false, all_to_all = false;
  std::vector<double> bytes;
  std::vector<std::string> patterns;
  int top_k = 8, samples = 7, nodes_per_group = 0;
};

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "cpu";
}

double resident_bytes() {
  std::ifstream in("/proc/self/statm");
  double all = 0, resident = 0;
  in >> all >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// The other ranks of a probe have nothing to save.
constexpr std::chrono::seconds after_a_death{5};

int num_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// A small model with every kind of segment, where no run is named.
plan::RunSpec reference_run() {
  plan::RunSpec run;
  run.model = {.name = "reference", .vocab_size = 1024, .hidden = 256, .num_layers = 2, .num_dense_layers = 1, .dense_ffn = 768,
               .attention = {.num_heads = 4, .num_kv_heads = 2, .head_dim = 64, .qk_norm = true},
               .moe = {.num_experts = 16, .expert_ffn = 256, .router = {.top_k = 2, .aux_loss_coefficient = 0.01}}};
  run.batch = {.sequence_length = 256, .micro_batch = 2, .global_batch = 2};
  return run;
}

void add_compute(platform::PlatformSpec& p, const nn::ComputeProbe& probe, DType dtype) {
  platform::Device& d = p.device;
  platform::GemmCurve gemm{.dtype = dtype, .threads = probe.threads, .source = Source::measured};
  for (const nn::GemmSample& s : probe.gemm) {
    gemm.m.push_back(static_cast<double>(s.m));
    gemm.n.push_back(static_cast<double>(s.n));
    gemm.k.push_back(static_cast<double>(s.k));
    gemm.flops_per_s.push_back(s.flops_per_s);
  }
  d.gemm.push_back(gemm);
  platform::GroupedGemmCurve grouped{.dtype = dtype, .threads = probe.threads, .source = Source::measured};
  for (const nn::GroupedGemmSample& s : probe.grouped_gemm) {
    grouped.rows.push_back(static_cast<double>(s.rows));
    grouped.n.push_back(static_cast<double>(s.n));
    grouped.k.push_back(static_cast<double>(s.k));
    grouped.groups.push_back(static_cast<double>(s.groups));
    grouped.flops_per_s.push_back(s.flops_per_s);
  }
  d.grouped_gemm.push_back(grouped);
  platform::AttentionCurve attention{.dtype = dtype, .threads = probe.threads, .source = Source::measured};
  for (const nn::AttentionSample& s : probe.attention) {
    attention.sequence.push_back(static_cast<double>(s.sequence));
    attention.heads.push_back(static_cast<double>(s.heads));
    attention.head_dim.push_back(static_cast<double>(s.head_dim));
    attention.forward_flops_per_s.push_back(s.forward_flops_per_s);
    attention.backward_flops_per_s.push_back(s.backward_flops_per_s);
  }
  d.attention.push_back(attention);
  for (const auto& [use, samples] : {std::pair{platform::MemoryUse::copy, &probe.copy},
                                     {platform::MemoryUse::elementwise, &probe.elementwise},
                                     {platform::MemoryUse::optimizer, &probe.optimizer}}) {
    platform::MemoryCurve curve{.use = use, .threads = probe.threads, .source = Source::measured};
    for (const nn::BandwidthSample& s : *samples) {
      curve.bytes.push_back(s.bytes);
      curve.bytes_per_s.push_back(s.bytes_per_s);
    }
    d.memory.push_back(curve);
  }
}

// The sizes at which segments are measured: what a rank with `threads` threads meets in the layouts of up to `ranks` ranks.
// The run's own micro-batch, and of 1, 2, 4, 8, 16 sequences those that cut its batch, as long as a pass takes a moment; every
// number of expert-parallel ranks that fits as many ranks as get so many threads each.
std::vector<model::SegmentShape> segment_shapes(const plan::RunSpec& run, const plan::Mesh& mesh, int ranks, int threads, int cores) {
  constexpr std::int64_t many_tokens = 4096;
  std::set<std::int64_t> micro_batches = {run.batch.micro_batch};
  for (const std::int64_t sequences : {1, 2, 4, 8, 16})
    if (run.batch.global_batch % sequences == 0 && sequences * run.batch.sequence_length <= many_tokens) micro_batches.insert(sequences);
  std::set<int> eps;
  if (run.device.threads > 0) eps.insert(mesh.ep);
  for (int n = 1; n <= ranks; ++n)
    for (int ep = 1; ep <= n && std::max(1, cores / n) == threads; ++ep)
      if (n % ep == 0 && (ep == 1 || (run.model.moe.num_experts > 0 && run.model.moe.num_experts % ep == 0))) eps.insert(ep);
  std::vector<model::SegmentShape> out;
  for (const int ep : eps)
    for (const std::int64_t sequences : micro_batches) {
      plan::RunSpec at = run;
      at.batch.micro_batch = sequences;
      out.push_back(sim::segment_shape(at, {.dp = ep, .ep = ep}, threads));
    }
  return out;
}

// The factors of a model's segments over their operators' sum, on the curves that the platform has by now.
void add_segments(platform::PlatformSpec& p, const plan::RunSpec& run, const std::vector<model::SegmentShape>& shapes, int threads,
                  const nn::ProbeOptions& probe) {
  const sim::ProbedRates rates(p, run.device.dtype, threads, 0);
  platform::SegmentTable table{.dtype = run.device.dtype, .threads = threads, .source = Source::measured, .model = run.model.name};
  const std::vector<nn::ShapeSamples> samples = nn::probe_segments(run.model, shapes, probe);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const model::SegmentShape& shape = shapes[i];
    double forward_s = 0, backward_s = 0;
    for (const nn::SegmentSample& s : samples[i].segments) {
      forward_s += s.forward_s, backward_s += s.backward_s;
      for (const auto& [pass, seconds] : {std::pair{model::Pass::forward, s.forward_s}, {model::Pass::backward, s.backward_s}}) {
        const double sum = sim::operators_time(model::operators(run.model, s.segment, s.layer, pass, shape), rates).value;
        if (sum <= 0) continue;
        table.segment.push_back(model::name_of(s.segment));
        table.layer.push_back(s.layer < 0 ? "end" : run.model.is_moe(s.layer) ? "moe" : "dense");
        table.pass.push_back(pass == model::Pass::forward ? "forward" : "backward");
        table.tokens.push_back(static_cast<double>(shape.tokens()));
        table.experts.push_back(std::max(1, shape.local_experts));
        table.factor.push_back(seconds / sum);
        table.load_cv.push_back(samples[i].load_cv);
      }
    }
    probe.progress(fmt::format("segments of {} tokens, {} experts a rank: one of each takes {:.2f} ms forward, {:.2f} ms backward", shape.tokens(),
                               shape.local_experts, forward_s * 1e3, backward_s * 1e3));
  }
  p.device.segments.push_back(std::move(table));
}

platform::PlatformSpec start(const Options& o, int ranks) {
  platform::PlatformSpec p = platform::default_platform();
  const std::string cpu = processor_name();
  p.name = fmt::format("{} cores of {}", num_cores(), cpu);
  platform::Device& d = p.device;
  d = {.name = cpu, .kind = "cpu", .memory_bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)),
       .launch_source = Source::measured};
  p.host.cores = num_cores();
  p.host.memory_bytes = d.memory_bytes;
  p.framework.baseline_bytes = resident_bytes();
  p.framework.source = Source::measured;
  return p;
}

void run_rank(const Options& o, const plan::RunSpec& run, const plan::Mesh& mesh, const comm::LaunchEnv& env) {
  set_up_log({.rank = env.world > 1 && env.rank > 0 ? env.rank : -1});
  const auto begin = std::chrono::steady_clock::now();
  const int cores = num_cores();
  const std::vector<int> threads = run.device.threads > 0 ? std::vector<int>{run.device.threads} : thread_counts(cores, env.world);
  if (env.local_world > 1) parallel::use_batch_scheduling();  // as a run's ranks do
  platform::PlatformSpec p = start(o, env.world);
  nn::ProbeOptions probe{.quick = o.quick, .progress = [&](const std::string& text) {
    spdlog::info("{:5.1f} s  {}", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), text);
  }};
  if (run.device.dtype == DType::bfloat16) probe.dtype = at::kBFloat16;
  if (run.device.dtype == DType::float64) probe.dtype = at::kDouble;
  const auto alone = [&] {
    const auto measure = [&](int with_threads) {
      at::set_num_threads(with_threads);
      probe.progress(fmt::format("{} threads", with_threads));
      const nn::ComputeProbe c = nn::probe_compute(probe);
      add_compute(p, c, run.device.dtype);
      if (p.device.peaks.empty()) p.device.peaks = {{.dtype = run.device.dtype, .source = Source::measured}};
      p.device.peaks[0].flops_per_s = std::max(p.device.peaks[0].flops_per_s, c.peak_flops_per_s);
      p.device.launch_s = p.device.launch_s == 0 ? c.launch_s : std::min(p.device.launch_s, c.launch_s);
    };
    if (threads.front() != cores) measure(cores);  // the peak is all cores'
    for (const int t : threads) {
      measure(t);
      add_segments(p, run, segment_shapes(run, mesh, env.world, t, cores), t, probe);
    }
  };
  probe_ranks({.env = env, .compute = probe, .threads = threads, .alone = alone, .model = run.model,
               .shape = sim::segment_shape(run, mesh, threads.back())}, p);
  if (env.rank != 0) return;
  platform::save_platform(p, o.out);
  if (o.json)
    write_output(json_text(nlohmann::json(p), 1) + "\n");
  else
    print_output("{}: measured in {:.0f} s, written to {}\n", p.name,
                           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), o.out);
}

// Before ranks are started, which would each say it.
void check_patterns(const std::vector<std::string>& patterns) {
  for (const std::string& name : patterns) {
    try {
      plan::make_pattern(name, plan::NodeShape::even(4, 1, 2));
    } catch (const ConfigError& error) {
      throw ConfigError({.key = "--patterns", .value = name, .allowed = error.detail().allowed});
    }
  }
}

bool is_platform(const std::filesystem::path& file) {
  try {
    platform::load_platform(file);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

// In --all-to-all alone a size is exchanged, and this process holds what it sends, what it gets and a copy of each.
void check_bytes(const Options& o, int ranks) {
  const platform::HostMemory memory = platform::measure_host_memory();
  if (memory.total_bytes <= 0) return;
  for (const double bytes : o.bytes) {
    const double needed = 4 * bytes * ranks * ranks;
    if (needed > memory.total_bytes)
      throw ConfigError({.key = "--bytes", .value = fmt::format("{:g}", bytes),
                         .allowed = fmt::format("{} ranks that have so much for each other need {:.3g} GiB, and this host has {:.3g}: "
                                                "at most {:.0f}",
                                                ranks, needed / GiB, memory.total_bytes / GiB, memory.total_bytes / 4 / ranks / ranks)});
  }
}

void check_given(const CLI::App& command, const Options& o) {
  if (!o.all_to_all)
    refuse_given(command, {"--save-race", "--bytes", "--patterns", "--top-k", "--samples"}, "is of the race of patterns: needs --all-to-all");
  const bool network = o.links || o.all_to_all;
  if (!network) refuse_given(command, {"--nodes-per-group"}, "is of links between ranks: needs --links or --all-to-all");
  if (network) refuse_given(command, {"--run", "--set"}, "says what to compute, and --links and --all-to-all measure the network alone");
}

void probe_command(const CLI::App& command, const Options& o, Context& context) {
  check_given(command, o);
  const comm::LaunchEnv env = find_place(context);
  const bool launched = comm::ranks_to_start(env, o.ranks, 1) == 0;
  // Measuring takes a minute, or more.
  if (env.rank == 0) check_outputs({{"--out", o.out, "a platform file", is_platform}}, {{"--run", o.run}});
  if (!o.set.empty() && o.run.empty())
    throw ConfigError({.key = "--set", .value = o.set.front(), .allowed = "changes a run: name one with --run"});
  if (!launched) check_patterns(o.patterns);
  if (o.links || o.all_to_all) {
    const int ranks = launched ? env.world : o.ranks > 0 ? o.ranks : std::min(8, std::max(2, num_cores()));
    if (!launched) check_bytes(o, ranks);
    if (!launched && ranks > 1) {
      context.exit_code = launch_local({.ranks = ranks, .timeout = after_a_death}, context);
      return;
    }
    at::set_num_threads(1);
    probe_network({.env = env, .links = o.links, .all_to_all = o.all_to_all, .out = o.out, .bytes_per_pair = o.bytes,
                   .patterns = o.patterns, .top_k = o.top_k, .samples = o.samples, .nodes_per_group = o.nodes_per_group,
                   .save_race = o.save_race, .quick = o.quick, .json = o.json});
    return;
  }
  plan::RunSpec run = o.run.empty() ? reference_run() : plan::load_run(o.run, o.set);
  int ranks = launched ? env.world : o.ranks;
  if (ranks == 0 && !o.run.empty()) ranks = run.layout.pp * (run.layout.dp > 0 ? run.layout.dp : run.layout.ep);
  if (ranks == 0) ranks = std::min(8, std::max(2, num_cores()));
  if (run.device.device != "cpu")
    throw ConfigError({.file = o.run, .key = "device.device", .value = run.device.device, .allowed = "cpu: this probe measures CPUs"});
  const plan::Mesh mesh = o.run.empty() ? plan::Mesh{} : plan::resolve_mesh(run, ranks);
  if (launched || ranks == 1) {
    wait_asleep(context);  // as a run's threads do
    run_rank(o, run, mesh, env);
    return;
  }
  context.exit_code = launch_local({.ranks = ranks, .timeout = after_a_death}, context);
}

}  // namespace

void add_probe_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("probe", "Measure this host into a platform file; let nothing else run meanwhile");
  c->add_option("--out", options->out, "Platform file to write (.toml or .json)")->capture_default_str();
  c->add_option("--ranks", options->ranks, "Ranks that share the host (default: the run's, else its cores)")->check(whole_number(1, most_ranks_asked));
  c->add_option("--run", options->run, "Also measure the segments of this run's model, in its shapes (default: a small model's)");
  c->add_option("--set", options->set, "KEY=VALUE: override a key of the run; repeatable")->allow_extra_args(false);
  c->add_flag("--quick", options->quick, "Fewer shapes, shorter: for a first look");
  c->add_flag("--json", options->json, "Print the platform as one JSON object; with --links and --all-to-all, lines of JSON");
  c->add_flag("--links", options->links, "Only the links between ranks, on one host or many: what a message costs alone and while all talk");
  c->add_flag("--all-to-all", options->all_to_all, "Only race the all-to-all patterns over sizes, and name the one that is chosen");
  c->add_flag("--save-race", options->save_race, "Write the race's times to --out: patterns are chosen by them from then on");
  c->add_option("--bytes", options->bytes, "Sizes of the race: bytes that a rank has for each other one")->delimiter(',')->check(positive_number());
  c->add_option("--patterns", options->patterns, "Patterns of the race (default: all that fit the nodes)")->delimiter(',');
  c->add_option("--top-k", options->top_k, "Experts that a raced token goes to")->capture_default_str()->check(whole_number(1, 64));
  c->add_option("--samples", options->samples, "Samples of each pattern and size")->capture_default_str()->check(whole_number(3, 1000));
  c->add_option("--nodes-per-group", options->nodes_per_group, "Nodes that share a switch (default: no such level)")->check(whole_number(0, 1 << 24));
  c->callback([c, options, &context] {
    tell_out_of_memory("probe", [&] { probe_command(*c, *options, context); });
  });
}

}  // namespace trireme::apps
