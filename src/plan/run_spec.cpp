#include "plan/run_spec.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/read_file.h"
#include "base/utf8.h"
#include "plan/all_to_all/generators.h"
#include "plan/frozen_parameters.h"
#include "plan/layout_keys.h"
#include "plan/layout_schedule.h"
#include "plan/pieces.h"
#include "plan/pipeline/schedule_file.h"
#include "plan/run_file/tables.h"
#include "plan/runnable.h"

namespace trireme::plan {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> layout_patterns() {
  auto names = pattern_names();
  names.insert(names.begin(), "auto");
  return names;
}

// What can be seen without the number of ranks.
void check(const RunSpec& run, const ConfigTable& table) {
  const LayoutSpec& l = run.layout;
  if (l.pp > run.model.num_layers)
    table.fail("layout.pp", fmt::format("more stages than model.num_layers ({})", run.model.num_layers));
  if (!stage_layers_fit(l, run.model.num_layers))
    table.fail("layout.stage_layers", stage_layers_wanted(l, run.model.num_layers));
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
  if (const std::string why = FrozenParameters(run.train.freeze).problem(run.model); !why.empty())
    table.fail("train.freeze", why);
  if (run.train.eval_every > 0 && run.train.eval_sequences == 0)
    table.fail("train.eval_every", "evaluates nothing, for train.eval_sequences is 0: give that a number or \"all\"");
  if (run.checkpoint.keep_best && run.train.eval_sequences == 0)
    table.fail("checkpoint.keep_best", "needs train.eval_sequences: the best checkpoint is the one with the lowest evaluation loss");
}

// What a schedule's file must have for this run; empty: it has.
std::string why_unfit(const Schedule& grid, const RunSpec& run) {
  const LayoutSpec& l = run.layout;
  if (grid.forward_only) return "holds a forward-only schedule: nothing would be trained";
  if (grid.num_stages != l.pp)
    return fmt::format("holds a schedule of {} stages: layout.pp ({}) must be that", grid.num_stages, l.pp);
  if (l.virtual_stages != 1 && l.virtual_stages != grid.num_chunks)
    return fmt::format("has {} chunks a stage: layout.virtual_stages ({}) must be that, or be left out",
                       grid.num_chunks, l.virtual_stages);
  std::vector<int> stage_of(static_cast<std::size_t>(num_pieces(grid)));
  for (int stage = 0; stage < grid.num_stages; ++stage) {
    int held = 0;
    for (int chunk = 0; chunk < grid.num_chunks; ++chunk)
      if (const int piece = piece_of(grid, stage, chunk); piece >= 0) stage_of[piece] = stage, ++held;
    if (held == 0) return fmt::format("has no piece of the model on stage {}", stage);
  }
  // The group that sums the two gradients is that of the first and the last stage.
  const int embed = stage_of.front(), head = stage_of.back(), last = grid.num_stages - 1;
  const bool at_ends = std::min(embed, head) == 0 && std::max(embed, head) == last;
  if (run.model.tied_embeddings && embed != head && !at_ends)
    return fmt::format(
        "has the ends of a model with tied embeddings on stages {} and {}: they must be on one stage, or on the "
        "first and the last",
        embed, head);
  return "";
}

// The schedule's file, where there is one, and the chunks that the schedule has by itself.
void read_schedule(RunSpec& run, const ConfigTable& table, const fs::path& folder) {
  LayoutSpec& l = run.layout;
  if (ScheduleFile& file = l.schedule_file; !file.path.empty()) {
    file.path = resolved_path(table, "schedule_file", folder, file.path).string();
    auto grid = std::make_shared<Schedule>(load_schedule(file.path));
    if (const std::string why = why_unfit(*grid, run); !why.empty()) table.fail("schedule_file", why);
    file.grid = std::move(grid);
  }
  l.virtual_stages = num_chunks(l);
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
    const fs::path path = resolved_path(model, "file", folder, model.string("file"));
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
    run.model = model::load_model(path, of_model);  // a folder: its config.json
    run.model_origin = path;
  } else {
    run.model = model::read_model(model);
  }

  run.name = table.string_or("name", run.name);
  run.folder = resolved_path(table, "folder", folder, table.string_or("folder", ""));
  if (run.folder.empty()) {
    const bool strange = std::any_of(run.name.begin(), run.name.end(), [](unsigned char c) { return c < ' ' || c == 127 || c == '/'; });
    if (run.name.empty() || run.name == "." || run.name == ".." || strange)
      table.fail("name", "must be the name of a folder, without / and control characters, where no folder is given: the run goes to "
                         "runs/NAME");
    run.folder = (folder / "runs" / run.name).lexically_normal();
  }
  if (first_not_utf8(run.folder.string()) < run.folder.string().size())
    throw ConfigError({.file = file_name, .key = "folder", .value = run.folder.string(),
                       .allowed = "is not UTF-8, which the files of a run must be"});
  run.platform = resolved_path(table, "platform", folder, table.string_or("platform", ""));
  const auto origin = resolved_path(table, "model_origin", folder, table.string_or("model_origin", ""));
  if (run.model_origin.empty()) run.model_origin = origin;
  run.timeout_s = table.number_or("timeout_s", run.timeout_s, 0.1, 1e6);
  // What nobody has to execute may be any pattern.
  std::vector<std::string> patterns = layout_patterns();
  if (table.has("published")) patterns = priced_pattern_names();
  run.layout = read_layout(table.table("layout"), patterns);
  read_schedule(run, table.table("layout"), folder);
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
  const auto quoted = [](const std::string& text) { return nlohmann::json(text).dump(); };
  std::string out = fmt::format("name = {}\nfolder = {}\n", quoted(run.name), quoted(run.folder.string()));
  if (!run.platform.empty()) out += fmt::format("platform = {}\n", quoted(run.platform.string()));
  if (!run.model_origin.empty()) out += fmt::format("model_origin = {}\n", quoted(run.model_origin.string()));
  out += fmt::format("timeout_s = {}\n\n", run.timeout_s);
  out += model::to_toml(run.model);
  out += to_toml(run.layout) + to_toml(run.batch) + to_toml(run.train) + to_toml(run.data) + to_toml(run.checkpoint) +
         to_toml(run.device);
  if (run.published) out += to_toml(*run.published);
  return out;
}

Mesh resolve_mesh(const RunSpec& run, int num_ranks, MeshUse use) {
  const LayoutSpec& l = run.layout;
  const auto fail = [&](const char* key, std::int64_t value, std::string allowed) {
    throw ConfigError({.file = run.file, .key = key, .value = fmt::format("{}", value), .allowed = std::move(allowed)});
  };
  TRIREME_CHECK(num_ranks >= 1, "{} ranks", num_ranks);
  use == MeshUse::executed ? refuse_unrunnable(run) : refuse_unplannable(run);
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
  if (const Schedule* grid = l.schedule_file.grid.get();
      grid && run.batch.num_micro_batches(dp) != grid->num_micro_batches)
    fail("batch.global_batch", run.batch.global_batch,
         fmt::format("is {} micro-batches of a data rank; the schedule of {} has {}", run.batch.num_micro_batches(dp),
                     l.schedule_file.path, grid->num_micro_batches));
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
