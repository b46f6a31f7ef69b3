#include "plan/run_spec.h"

#include <algorithm>
#include <numeric>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/read_file.h"
#include "plan/all_to_all/generators.h"
#include "plan/pipeline/generators.h"
#include "plan/runnable.h"

namespace trireme::plan {
namespace {

namespace fs = std::filesystem;

// Paths in a file are relative to its folder; those of the command line to the current one.
fs::path resolve(const ConfigTable& table, const char* key, const fs::path& folder, const std::string& path) {
  if (path.empty()) return {};
  return (fs::absolute(table.overridden(key) ? fs::current_path() : folder) / path).lexically_normal();
}

std::string one_of_names(ConfigTable& table, const char* key, const std::string& otherwise,
                         const std::vector<std::string>& names) {
  const std::string name = table.string_or(key, otherwise);
  if (std::find(names.begin(), names.end(), name) == names.end())
    table.fail(key, fmt::format("must be one of {}", fmt::join(names, ", ")));
  return name;
}

AxisOrder axis_order(ConfigTable& table, const char* key, const AxisOrder& otherwise, AxisOrder (*read)(const std::string&)) {
  try {
    return read(table.string_or(key, to_text(otherwise)));
  } catch (const std::invalid_argument& e) {
    table.fail(key, e.what());
  }
}

template <class Read>
auto set_of_names(ConfigTable& table, const char* key, Read read) {
  try {
    return read(table.strings_or(key, {}));
  } catch (const std::invalid_argument& e) {
    table.fail(key, e.what());
  }
}

std::vector<std::string> layout_patterns() {
  auto names = pattern_names();
  names.insert(names.begin(), "auto");
  return names;
}

}  // namespace

LayoutSpec read_layout(ConfigTable t, const std::vector<std::string>& patterns) {
  LayoutSpec s;
  s.pp = static_cast<int>(t.integer_or("pp", s.pp, 1, 1 << 20));
  s.dp = static_cast<int>(t.integer_or("dp", s.dp, 0, 1 << 20));
  s.ep = static_cast<int>(t.integer_or("ep", s.ep, 1, 1 << 20));
  s.schedule = one_of_names(t, "schedule", s.schedule, schedule_names());
  s.stage_layers = t.integers_or("stage_layers", {}, 0, 1 << 20);
  s.all_to_all = one_of_names(t, "all_to_all", s.all_to_all, patterns);
  s.bucket_MiB = t.number_or("bucket_MiB", s.bucket_MiB, 1e-6, 1e6);
  s.tp = static_cast<int>(t.integer_or("tp", s.tp, 1, 1 << 20));
  s.sequence_parallel = t.boolean_or("sequence_parallel", s.sequence_parallel);
  s.cp = static_cast<int>(t.integer_or("cp", s.cp, 1, 1 << 20));
  s.etp = static_cast<int>(t.integer_or("etp", s.etp, 1, 1 << 20));
  s.order = axis_order(t, "order", s.order, order_from_text);
  s.expert_order = axis_order(t, "expert_order", s.expert_order, expert_order_from_text);
  s.virtual_stages = static_cast<int>(t.integer_or("virtual_stages", s.virtual_stages, 1, 1 << 20));
  s.micro_batch_group = static_cast<int>(t.integer_or("micro_batch_group", s.micro_batch_group, 0, 1 << 20));
  const std::string sharding = one_of_names(t, "sharding", name_of(s.sharding), sharding_names());
  s.sharding = sharding_from_name(sharding);
  s.shard_degree = static_cast<int>(t.integer_or("shard_degree", s.shard_degree, 0, 1 << 20));
  s.expert_shard_degree = static_cast<int>(t.integer_or("expert_shard_degree", s.expert_shard_degree, 0, 1 << 20));
  s.recompute = set_of_names(t, "recompute", recompute_from_names);
  s.recompute_layers = static_cast<int>(t.integer_or("recompute_layers", s.recompute_layers, 0, 1 << 20));
  s.swap = set_of_names(t, "swap", swap_from_names);
  s.matrix_owners = t.boolean_or("matrix_owners", s.matrix_owners);
  ConfigTable overlap = t.table("overlap");
  s.overlap.gradients = overlap.boolean_or("gradients", s.overlap.gradients);
  s.overlap.parameters = overlap.boolean_or("parameters", s.overlap.parameters);
  s.overlap.tensor = overlap.boolean_or("tensor", s.overlap.tensor);
  s.overlap.experts = overlap.boolean_or("experts", s.overlap.experts);
  s.overlap.pipeline = overlap.boolean_or("pipeline", s.overlap.pipeline);
  return s;
}

namespace {

BatchSpec read_batch(ConfigTable t) {
  BatchSpec s;
  s.sequence_length = t.integer_or("sequence_length", s.sequence_length, 1, 1 << 30);
  s.micro_batch = t.integer_or("micro_batch", s.micro_batch, 1, 1 << 30);
  s.global_batch = t.integer_or("global_batch", s.global_batch, 1, 1 << 30);
  return s;
}

OptimizerSpec read_optimizer(ConfigTable t) {
  OptimizerSpec s;
  s.learning_rate = t.number_or("learning_rate", s.learning_rate, 0);
  s.beta1 = t.number_or("beta1", s.beta1, 0, 1);
  s.beta2 = t.number_or("beta2", s.beta2, 0, 1);
  if (s.beta1 == 1) t.fail("beta1", "must be below 1");
  if (s.beta2 == 1) t.fail("beta2", "must be below 1");
  s.eps = t.number_or("eps", s.eps, 0);
  s.weight_decay = t.number_or("weight_decay", s.weight_decay, 0);
  s.gradient_clip = t.number_or("gradient_clip", s.gradient_clip, 0);
  return s;
}

LearningRateSpec read_learning_rate(ConfigTable t) {
  LearningRateSpec s;
  s.kind = t.one_of_or("kind", s.kind, {"cosine", "wsd", "constant"});
  s.warmup_steps = t.integer_or("warmup_steps", s.warmup_steps, 0);
  s.decay_steps = t.integer_or("decay_steps", s.decay_steps, 0);
  s.min_ratio = t.number_or("min_ratio", s.min_ratio, 0, 1);
  return s;
}

TrainSpec read_train(ConfigTable t) {
  TrainSpec s;
  s.steps = t.integer_or("steps", s.steps, 1);
  s.seed = static_cast<std::uint64_t>(t.integer_or("seed", static_cast<std::int64_t>(s.seed), 0));
  s.optimizer = read_optimizer(t.table("optimizer"));
  s.schedule = read_learning_rate(t.table("schedule"));
  s.eval_every = t.integer_or("eval_every", s.eval_every, 0);
  s.eval_sequences = t.integer_or("eval_sequences", s.eval_sequences, 0);
  s.log_every = t.integer_or("log_every", s.log_every, 1);
  return s;
}

DataSpec read_data(ConfigTable t, const fs::path& folder) {
  DataSpec s;
  const auto source = [&](const char* key) {
    const std::string value = t.string_or(key, "");
    return value == "random" ? value : resolve(t, key, folder, value).string();
  };
  s.train = source("train");
  s.valid = source("valid");
  s.reset_at_documents = t.boolean_or("reset_at_documents", s.reset_at_documents);
  return s;
}

CheckpointSpec read_checkpoint(ConfigTable t, const fs::path& folder) {
  CheckpointSpec s;
  s.every = t.integer_or("every", s.every, 0);
  s.keep = static_cast<int>(t.integer_or("keep", s.keep, 1, 1 << 20));
  s.at_end = t.boolean_or("at_end", s.at_end);
  s.initial = resolve(t, "initial", folder, t.string_or("initial", "")).string();
  return s;
}

DType read_dtype(ConfigTable& t, const char* key) {
  return dtype_from_name(t.one_of_or(key, "float32", {"float32", "float64", "bfloat16", "float16"}));
}

DeviceSpec read_device(ConfigTable t) {
  DeviceSpec s;
  s.device = t.one_of_or("device", s.device, {"cpu", "cuda"});
  s.dtype = read_dtype(t, "dtype");
  // Gradients in messages keep the precision that they are accumulated in unless told otherwise.
  s.reduce_dtype = t.has("reduce_dtype") ? read_dtype(t, "reduce_dtype") : accumulate_dtype(s.dtype);
  t.string_or("reduce_dtype", "");
  s.threads = static_cast<int>(t.integer_or("threads", s.threads, 0, 1 << 16));
  return s;
}

// What can be seen without the number of ranks.
void check(const RunSpec& run, const ConfigTable& table) {
  const LayoutSpec& l = run.layout;
  if (l.pp > run.model.num_layers)
    table.fail("layout.pp", fmt::format("more stages than model.num_layers ({})", run.model.num_layers));
  if (!l.stage_layers.empty()) {
    if (static_cast<int>(l.stage_layers.size()) != l.pp * l.virtual_stages)
      table.fail("layout.stage_layers",
                 l.virtual_stages == 1 ? fmt::format("must have layout.pp ({}) entries", l.pp)
                                       : fmt::format("must have layout.pp * layout.virtual_stages ({} * {}) entries", l.pp,
                                                     l.virtual_stages));
    const int fewest = l.virtual_stages == 1 ? 1 : 0;  // no-op slots fill up a grid of chunks
    if (std::any_of(l.stage_layers.begin(), l.stage_layers.end(), [&](auto n) { return n < fewest; }) ||
        std::accumulate(l.stage_layers.begin(), l.stage_layers.end(), std::int64_t{0}) != run.model.num_layers)
      table.fail("layout.stage_layers",
                 fmt::format("must be positive and sum to model.num_layers ({})", run.model.num_layers));
  }
  const int experts = run.model.moe.num_experts;
  if (experts == 0 && l.ep > 1) table.fail("layout.ep", "must be 1: the model has no experts");
  if (experts > 0 && experts % l.ep != 0)
    table.fail("layout.ep", fmt::format("must divide model.moe.num_experts ({})", experts));
  const std::int64_t experts_over = std::int64_t{1} * l.cp * l.tp * l.dp;
  if (l.dp > 0 && experts_over % (std::int64_t{1} * l.ep * l.etp) != 0)
    table.fail("layout.ep", l.cp * l.tp * l.etp == 1
                                ? fmt::format("must divide layout.dp ({})", l.dp)
                                : fmt::format("times layout.etp ({}) must divide layout.dp * cp * tp ({})", l.etp, experts_over));
  if (experts > 0 && l.dp > 0 && !mesh_of(l).stages_agree()) table.fail("layout.order", why_stages_differ(mesh_of(l)));
  const std::int64_t at_once = run.batch.micro_batch * std::max(l.dp, 1);
  if (run.batch.global_batch % at_once != 0)
    table.fail("batch.global_batch",
               fmt::format("must be a multiple of batch.micro_batch ({}){}", run.batch.micro_batch,
                           l.dp > 0 ? fmt::format(" times layout.dp ({})", l.dp) : ""));
  if (run.train.eval_sequences > 0 && run.data.valid.empty())
    table.fail("data.valid", "is missing: train.eval_sequences asks for evaluation");
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

}  // namespace

RunSpec parse_run(const std::string& text, const std::string& file_name, const std::vector<std::string>& overrides) {
  const fs::path folder = fs::absolute(file_name).parent_path();
  ConfigTable table = ConfigTable::from_text(text, file_name, overrides);
  RunSpec run;
  run.file = file_name;

  if (ConfigTable model = table.table("model"); model.has("file")) {
    for (const char* key : {"vocab_size", "hidden", "num_layers", "attention", "moe"})
      if (model.has(key) && !model.overridden(key))
        model.fail("file", fmt::format("give either a file or the model's own keys (found {})", model.dotted(key)));
    const fs::path path = resolve(model, "file", folder, model.string("file"));
    // The command line's model keys change the model's file, not this one. So do those of a published figure.
    const auto is_model = [](const std::string& o) { return o.starts_with("model.") && !o.starts_with("model.file"); };
    std::vector<std::string> of_model, of_run;
    if (table.has("published"))
      for (const std::string& o : table.table("published").strings_or("set", {}))
        if (is_model(o)) of_model.push_back(o);
    std::partition_copy(overrides.begin(), overrides.end(), std::back_inserter(of_model), std::back_inserter(of_run),
                        is_model);
    table = ConfigTable::from_text(text, file_name, of_run);
    table.table("model").string("file");
    run.model = model::load_model(path, of_model);
  } else {
    run.model = model::read_model(model);
  }

  run.name = table.string_or("name", run.name);
  run.folder = table.has("folder") ? resolve(table, "folder", folder, table.string("folder"))
                                   : (folder / "runs" / run.name).lexically_normal();
  table.string_or("folder", "");
  run.platform = resolve(table, "platform", folder, table.string_or("platform", ""));
  run.timeout_s = table.number_or("timeout_s", run.timeout_s, 0.1, 1e6);
  // What nobody has to execute may be any pattern.
  std::vector<std::string> patterns = layout_patterns();
  if (table.has("published")) patterns.push_back("allgather");
  run.layout = read_layout(table.table("layout"), patterns);
  run.batch = read_batch(table.table("batch"));
  run.train = read_train(table.table("train"));
  run.data = read_data(table.table("data"), folder);
  run.checkpoint = read_checkpoint(table.table("checkpoint"), folder);
  run.device = read_device(table.table("device"));
  if (table.has("published")) run.published = read_published(table.table("published"));
  table.finish();
  check(run, table);
  return run;
}

RunSpec load_run(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return parse_run(read_file(path), path.string(), overrides);
}

std::string to_toml(const RunSpec& run) {
  std::string out;
  const auto line = [&](const char* key, const auto& value) { out += fmt::format("{} = {}\n", key, value); };
  const auto section = [&](const char* name) { out += fmt::format("\n[{}]\n", name); };
  line("name", quoted(run.name));
  line("folder", quoted(run.folder.string()));
  if (!run.platform.empty()) line("platform", quoted(run.platform.string()));
  line("timeout_s", run.timeout_s);
  out += "\n" + model::to_toml(run.model);
  section("layout");
  line("pp", run.layout.pp);
  line("dp", run.layout.dp);
  line("ep", run.layout.ep);
  line("schedule", quoted(run.layout.schedule));
  line("stage_layers", fmt::format("[{}]", fmt::join(run.layout.stage_layers, ", ")));
  line("all_to_all", quoted(run.layout.all_to_all));
  line("bucket_MiB", run.layout.bucket_MiB);
  line("tp", run.layout.tp);
  line("sequence_parallel", run.layout.sequence_parallel);
  line("cp", run.layout.cp);
  line("etp", run.layout.etp);
  line("order", quoted(to_text(run.layout.order)));
  line("expert_order", quoted(to_text(run.layout.expert_order)));
  line("virtual_stages", run.layout.virtual_stages);
  line("micro_batch_group", run.layout.micro_batch_group);
  line("sharding", quoted(name_of(run.layout.sharding)));
  line("shard_degree", run.layout.shard_degree);
  line("expert_shard_degree", run.layout.expert_shard_degree);
  line("recompute", nlohmann::json(names_of(run.layout.recompute)).dump());
  line("recompute_layers", run.layout.recompute_layers);
  line("swap", nlohmann::json(names_of(run.layout.swap)).dump());
  line("matrix_owners", run.layout.matrix_owners);
  section("layout.overlap");
  line("gradients", run.layout.overlap.gradients);
  line("parameters", run.layout.overlap.parameters);
  line("tensor", run.layout.overlap.tensor);
  line("experts", run.layout.overlap.experts);
  line("pipeline", run.layout.overlap.pipeline);
  section("batch");
  line("sequence_length", run.batch.sequence_length);
  line("micro_batch", run.batch.micro_batch);
  line("global_batch", run.batch.global_batch);
  section("train");
  line("steps", run.train.steps);
  line("seed", run.train.seed);
  line("eval_every", run.train.eval_every);
  line("eval_sequences", run.train.eval_sequences);
  line("log_every", run.train.log_every);
  section("train.optimizer");
  line("learning_rate", run.train.optimizer.learning_rate);
  line("beta1", run.train.optimizer.beta1);
  line("beta2", run.train.optimizer.beta2);
  line("eps", run.train.optimizer.eps);
  line("weight_decay", run.train.optimizer.weight_decay);
  line("gradient_clip", run.train.optimizer.gradient_clip);
  section("train.schedule");
  line("kind", quoted(run.train.schedule.kind));
  line("warmup_steps", run.train.schedule.warmup_steps);
  line("decay_steps", run.train.schedule.decay_steps);
  line("min_ratio", run.train.schedule.min_ratio);
  section("data");
  line("train", quoted(run.data.train));
  line("valid", quoted(run.data.valid));
  line("reset_at_documents", run.data.reset_at_documents);
  section("checkpoint");
  line("every", run.checkpoint.every);
  line("keep", run.checkpoint.keep);
  line("at_end", run.checkpoint.at_end);
  line("initial", quoted(run.checkpoint.initial));
  section("device");
  line("device", quoted(run.device.device));
  line("dtype", quoted(std::string(name_of(run.device.dtype))));
  line("reduce_dtype", quoted(std::string(name_of(run.device.reduce_dtype))));
  line("threads", run.device.threads);
  if (run.published) out += to_toml(*run.published);
  return out;
}

Mesh resolve_mesh(const RunSpec& run, int num_ranks) {
  const LayoutSpec& l = run.layout;
  const auto fail = [&](const char* key, std::int64_t value, std::string allowed) {
    throw ConfigError({.file = run.file, .key = key, .value = fmt::format("{}", value), .allowed = std::move(allowed)});
  };
  TRIREME_CHECK(num_ranks >= 1, "{} ranks", num_ranks);
  refuse_unrunnable(run);
  if (num_ranks > most_ranks)
    throw ConfigError({.file = run.file,
                       .key = "ranks",
                       .value = fmt::format("{}", num_ranks),
                       .allowed = fmt::format("at most {} are planned action by action (`trireme plan --model` answers "
                                              "for more)", most_ranks)});
  if (num_ranks % l.pp != 0) fail("layout.pp", l.pp, fmt::format("must divide the number of ranks ({})", num_ranks));
  const int dp = num_ranks / l.pp;
  if (l.dp != 0 && l.dp != dp)
    fail("layout.dp", l.dp,
         fmt::format("must be {} for {} ranks and layout.pp = {} (0 lets it follow)", dp, num_ranks, l.pp));
  if (dp % l.ep != 0)
    fail("layout.ep", l.ep,
         fmt::format("must divide the data-parallel ranks ({} ranks / layout.pp {} = {})", num_ranks, l.pp, dp));
  const std::int64_t at_once = run.batch.micro_batch * dp;
  if (run.batch.global_batch % at_once != 0)
    fail("batch.global_batch", run.batch.global_batch,
         fmt::format("must be a multiple of batch.micro_batch ({}) times the data-parallel ranks ({})",
                     run.batch.micro_batch, dp));
  const std::int64_t passes = run.batch.global_batch / at_once * run.model.num_layers;
  if (passes > most_layer_passes)
    fail("batch.global_batch", run.batch.global_batch,
         fmt::format("is {} micro-batches of {} layers: at most {} layer passes are planned action by action (`trireme "
                     "plan --model` answers for more)", run.batch.global_batch / at_once, run.model.num_layers,
                     most_layer_passes));
  // A RunSpec that was built in code has not been through parse_run.
  if (l.pp > run.model.num_layers)
    fail("layout.pp", l.pp, fmt::format("more stages than model.num_layers ({})", run.model.num_layers));
  const int experts = run.model.moe.num_experts;
  if (experts == 0 ? l.ep != 1 : experts % l.ep != 0)
    fail("layout.ep", l.ep,
         experts == 0 ? std::string("must be 1: the model has no experts")
                      : fmt::format("must divide model.moe.num_experts ({})", experts));
  Mesh mesh = mesh_of(l);
  mesh.dp = dp;
  return mesh;
}

}  // namespace trireme::plan
