// Everything that the planning half reads: runs, models, platforms, calibrations, tables, schedules and names.
#include <algorithm>
#include <stdexcept>

#include "base/csv_table.h"
#include "base/errors.h"
#include "fuzz/format.h"
#include "model/kernels.h"
#include "model/model_table.h"
#include "model/parameters.h"
#include "plan/all_to_all/generators.h"
#include "plan/axis_order.h"
#include "plan/pipeline/schedule_file.h"
#include "plan/plan.h"
#include "plan/run_spec.h"
#include "platform/platform_file.h"
#include "platform/stack_profile.h"
#include "search/layouts/question_table.h"
#include "search/validation/row.h"

namespace trireme::fuzz {
namespace {

// A value that was accepted is written as a file that is accepted and gives the same value.
template <class Value, class Read, class Write>
void comes_back(const Value& value, const Read& read, const Write& write) {
  const std::string text = write(value);
  try {
    TRIREME_CHECK(read(text) == value, "written and read again it is another:\n{}", text);
  } catch (const ConfigError& e) {
    TRIREME_CHECK(false, "written it is refused: {}", e.what());
  }
}

void parameters_are_counted(const model::ModelSpec& spec) {
  model::count_parameters(spec);
  model::training_flops_per_token(spec, 4096);
}

// As `plan` does with a run, where it is small.
void run_is_planned(const plan::RunSpec& run) {
  parameters_are_counted(run.model);
  for (const int ranks : {1, 4}) {
    try {
      const plan::Mesh mesh = plan::resolve_mesh(run, ranks);
      if (run.model.num_layers > 16 || run.batch.num_micro_batches(mesh.dp) > 16 || run.layout.all_to_all == "auto") continue;
      for (const std::string& problem : plan::problems(plan::make_training_plan(run, mesh))) TRIREME_CHECK(false, "{}", problem);
    } catch (const ConfigError&) {
    }
  }
}

constexpr const char* quickstart = "configs/runs/quickstart.toml";

plan::RunSpec parse_run_at(const std::string& text, const std::string& file, const std::vector<std::string>& overrides = {}) {
  return plan::parse_run(text, std::string(TRIREME_SOURCE_DIR) + "/" + file, overrides);
}

void read_run(const std::string& text) {
  const plan::RunSpec run = parse_run_at(text, quickstart);
  run_is_planned(run);
  comes_back(run, [&](const std::string& again) { 
    plan::RunSpec back = plan::parse_run(again, run.file);
    back.model_origin = run.model_origin;
    return back; }, [](const plan::RunSpec& r) { return plan::to_toml(r); });
}

void read_override(const std::string& text) {
  static const std::string file = source_file(quickstart);
  run_is_planned(parse_run_at(file, quickstart, {text}));
}

void read_question_override(const std::string& text) {
  static const model::ModelSpec model = model::load_model(std::string(TRIREME_SOURCE_DIR) + "/configs/models/mixtral_8x7b.toml");
  search::read_question(model, 64, {text});
}

model::ModelSpec model_of(const std::string& text) {
  ConfigTable table = ConfigTable::from_text(text, "model.toml");
  ConfigTable in = table.table("model");
  model::ModelSpec spec = model::read_model(in);
  table.finish();
  return spec;
}

void read_model(const std::string& text) {
  const model::ModelSpec spec = model_of(text);
  parameters_are_counted(spec);
  comes_back(spec, model_of, [](const model::ModelSpec& s) { return model::to_toml(s); });
}

// Through a file, as a program does.
template <class Read>
auto from_file(const char* name, const Read& read) {
  return [=](const std::string& text) {
    const auto path = scratch_folder() / name;
    write_file(path, text);
    read(path);
  };
}

// Not the same: a time in a file is in microseconds, and the last bit of its conversion may differ.
template <class Read>
void is_accepted(const std::string& written, const Read& read) {
  try {
    read(written, "written");
  } catch (const ConfigError& e) {
    TRIREME_CHECK(false, "written it is refused: {}", e.what());
  }
}

void read_platform(const std::string& text) {
  is_accepted(platform::to_toml(platform::parse_platform(text, "platform.toml")), platform::parse_platform);
}

void read_stack(const std::string& text) {
  is_accepted(platform::to_toml(platform::parse_stack_profile(text, "stack.toml")), platform::parse_stack_profile);
}

void read_schedule(const std::string& text) {
  const plan::Schedule schedule = plan::parse_schedule(text);
  if (!plan::problems(schedule).empty()) return;
  for (int stage = 0; stage < schedule.num_stages; ++stage) plan::peak_in_flight(schedule, stage);
  comes_back(schedule, plan::parse_schedule, [](const plan::Schedule& s) { return plan::to_text(s); });
  plan::crossed_messages(schedule);
}

void read_schedule_csv(const std::string& text) {
  const auto read = [](const std::string& csv) { return plan::parse_schedule_csv(csv, "fuzz").schedule; };
  const plan::Schedule schedule = read(text);
  if (!plan::problems(schedule).empty()) return;
  plan::crossed_messages(schedule);
  comes_back(schedule, read, plan::to_csv);
}

// Names that a run file's reader turns into a ConfigError with the key: what they throw is std::invalid_argument.
void read_names(const std::string& text) {
  bool known = false;
  const auto refusing = [&](const auto& read) {
    try {
      read();
      known = true;
    } catch (const std::invalid_argument&) {
    } catch (const ConfigError&) {
    }
  };
  refusing([&] { plan::order_from_text(text); });
  refusing([&] { plan::expert_order_from_text(text); });
  refusing([&] { plan::sharding_from_name(text); });
  refusing([&] { plan::recompute_from_names({text}); });
  refusing([&] { plan::swap_from_names({text}); });
  refusing([&] { axes_in_order(text); });
  refusing([&] { plan::make_pattern(text, 4); });
  refusing([&] { model::find_kernels(text); });
  if (!known) throw ConfigError({.value = text, .allowed = "no name of anything"});
}

std::vector<std::string> files(const std::string& format, std::initializer_list<const char*> paths) {
  std::vector<std::string> out;
  for (const char* path : paths) out.push_back(source_file(path));
  for (std::string& seed : kept_seeds(format)) out.push_back(std::move(seed));
  return out;
}

std::vector<std::string> with_kept(const std::string& format, std::vector<std::string> seeds) {
  for (std::string& seed : kept_seeds(format)) seeds.push_back(std::move(seed));
  return seeds;
}

}  // namespace

std::vector<Format> planning_formats() {
  const std::vector<std::string> run_words = {"layout.pp", "schedule = \"dualpipe_v\"", "schedule = \"zero_bubble\"", "all_to_all = \"halo\"",
                                              "all_to_all = \"auto\"", "[[data.train]]", "[layout.overlap]", "recompute = [\"attention\"]",
                                              "\"all\"", "[model.moe.router]", "weight = 0.5", "\"muon\"", "fsdp = 2"};
  const std::vector<std::string> model_words = {"[model.moe]", "[model.attention]", "[model.linear]", "pattern = \"M*E-\"", "\"latent\"", "mtp_depth = 1",
                                                "\"mamba2\"", "\"sigmoid\"", "[model.attention.rope]"};
  const std::vector<std::string> hf_words = {"\"rope_scaling\": {\"type\": \"yarn\"},", "\"layer_types\": [\"full_attention\"],", "\"text_config\": {},",
                                             "\"model_type\": \"mixtral\",", "\"quantization_config\": {},", "\"sliding_window\": 128,"};
  return {
      {"run_toml",
       files("run_toml", {quickstart, "configs/runs/tiny.toml", "configs/runs/published/europa_3_final.toml"}),
       run_words, read_run},
      {"set",
       with_kept("set",
                 {"layout.pp=2", "train.steps = 8", "data.train=\"x\"", "layout.recompute=[\"attention\"]",
                  "model.moe.router.top_k=1", "train.optimizer.learning_rate=1e-3", "layout.overlap={experts=true}"}),
       run_words, read_override},
      {"question",
       with_kept("question", {"layout.pp=2", "batch.global_batch=512", "precision.compute=\"fp8\"",
                              "layout.schedule=\"1f1b\"", "layout.recompute=[\"attention\"]", "kernels=\"megatron\""}),
       run_words, read_question_override},
      {"model_toml",
       files("model_toml", {"configs/models/quickstart.toml", "configs/models/deepseek_v3.toml",
                            "configs/models/nemotron_h_56b.toml", "configs/models/gpt_oss_20b.toml",
                            "configs/models/qwen3_next_80b_a3b.toml", "configs/models/deepseek_v4_flash.toml"}),
       model_words, read_model},
      {"hf_config", kept_seeds("hf_config"), hf_words,
       from_file("config.json", [](const auto& path) { parameters_are_counted(model::load_model(path)); })},
      {"platform_toml",
       files("platform_toml", {"configs/platforms/laptop.toml", "configs/platforms/dgx_h100.toml",
                               "configs/platforms/gb200_nvl72.toml"}),
       {"[[device.gemm]]", "[[link]]", "[[shared_link]]", "source = \"measured\"", "[datasheet]", "[host.noise]"},
       read_platform},
      {"stack_toml", files("stack_toml", {"configs/stacks/frontier.toml"}), {"[[device]]", "[[stack]]"}, read_stack},
      {"kernels_toml",
       files("kernels_toml", {"configs/kernels/megatron.toml", "configs/kernels/trireme.toml"}),
       {},
       [](const std::string& text) { model::parse_kernels(text, "kernels.toml"); }},
      {"csv",
       with_kept("csv", {"a,b\n1,\"x, \"\"y\"\"\"\n2,\n", "model,layers\r\nx,3\r\n"}),
       {"\"", ",", "\r\n"},
       [](const std::string& text) {
         const CsvTable table = CsvTable::from_text(text, "table.csv");
         for (std::size_t row = 0; row < table.num_rows(); ++row)
           for (const std::string& column : table.columns()) table.text(row, column);
       }},
      {"model_table",
       files("model_table", {"tests/golden/model_configs.csv"}),
       {"MLA", ",,", "\"", "notes"},
       from_file("models.csv", [](const auto& path) { model::read_model_table_csv(path); })},
      {"rows",
       kept_seeds("rows"),
       {"tokens/s/device", "% MFU", "\"", ",,"},
       from_file("rows.csv", [](const auto& path) { search::read_rows(path); })},
      {"schedule",
       with_kept(
           "schedule",
           {"1f1b, 2 stages, 3 micro-batches, 1 chunk\nstage 0 | F0 F1 B0 F2 B1 B2\nstage 1 | F0 B0 F1 B1 F2 B2\n",
            "v, 2 stages, 1 micro-batches, 2 chunks\nstage 0 (0 3) | F0 - F0.1 I0.1 W0.1 B0\nstage 1 (1 2) | F0 F0.1 "
            "B0.1+F1 B0\n"}),
       {"F0", "B1.1", "W3", "I2+F1", "(0 -)", "| ", ", forward only", "stage 2 |"},
       read_schedule},
      {"schedule_csv",
       with_kept("schedule_csv",
                 {"0F0,0F1,,,0B0,0B1\r\n,1F0,1B0,1F1,1B1\r\n", "0F0,3F0,3I0,3W0,0I0,0W0\n1F0,2F0,2I0,2W0,1I0,1W0\n",
                  "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n"}),
       {"0F0", "1B1", "2W3", "I", ",", "(0F2;1B1)OVERLAP_F_B", "\n", "SEND_F"},
       read_schedule_csv},
      {"names",
       with_kept("names",
                 {"tp-cp-ep-dp-pp", "etp-ep-edp-pp", "halo", "dedup", "full", "attention", "megatron", "shard"}),
       {"-", "tp", "none"},
       read_names},
  };
}

}  // namespace trireme::fuzz
