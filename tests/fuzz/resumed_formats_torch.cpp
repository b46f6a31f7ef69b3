// What a run that goes on reads of itself: its place in the data, its guards, its lock and its sessions.
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "fuzz/format.h"
#include "train/checkpoint/checkpoint_state.h"
#include "train/data/training_data.h"
#include "train/guard/expert_collapse.h"
#include "train/guard/update_guard.h"
#include "train/run_folder/lease_file.h"
#include "train/run_folder/run_info.h"

namespace trireme::fuzz {
namespace {

namespace fs = std::filesystem;
using namespace train;

plan::RunSpec random_run() {
  plan::RunSpec run;
  run.file = "run.toml";
  run.model.vocab_size = 29;
  run.model.num_layers = 3, run.model.num_dense_layers = 1;
  run.model.moe.num_experts = 4, run.model.moe.router.top_k = 1;
  run.batch = {.sequence_length = 4, .micro_batch = 1, .global_batch = 8};
  run.data.train = {{.prefix = "random"}};
  run.checkpoint.allow_changes = {"seed", "data"};
  run.train.loss_spike.action = "rewind";
  return run;
}

std::string good_state() {
  const plan::RunSpec run = random_run();
  nlohmann::json state = TrainingData(run).state(16);
  state["step"] = 2, state["tokens_seen"] = 64, state["optimizer_steps"] = 2, state["seed"] = 1;
  state["guard"] = UpdateGuard(run.train, run.model.vocab_size).state();
  state["guard"]["first_loss"] = 3.5, state["guard"]["losses"] = {3.5, 3.25};
  state["expert_collapse"] = ExpertCollapse(5, run.model).state();
  return state.dump(1);
}

// As the trainer does with a state whose checksum is right.
void read_state(const std::string& text) {
  const fs::path file = scratch_folder() / "state_to_resume.json";
  write_file(file, text);
  const plan::RunSpec run = random_run();
  const CheckpointState state(file);
  state.count("step"), state.count_or("tokens_seen", 0), state.count_or("optimizer_steps", 0), state.number(eval_loss_key);
  TrainingData data(run);
  const std::int64_t seen = data.resume(state.json(), file.string()).sequences_seen;
  TRIREME_CHECK(seen >= 0, "sequence {}", seen);
  std::vector<std::int64_t> tokens(4), targets(4), positions(4), documents(4);
  std::vector<float> weights(4);
  data.read(seen, {tokens, targets, weights, positions, documents});
  data.state(seen).dump();
  UpdateGuard guard(run.train, run.model.vocab_size);
  if (state.json().contains("guard")) guard.restore(state.json()["guard"], file.string(), "guard");
  guard.judge({.loss = 3, .gradient_norm = 1});
  guard.state().dump();
  ExpertCollapse collapse(5, run.model);
  if (state.json().contains("expert_collapse")) collapse.restore(state.json()["expert_collapse"], file.string(), "expert_collapse");
  collapse.watch({4, 1}, {0, 1});
}

void read_sessions(const std::string& text) {
  const fs::path folder = scratch_folder() / "sessions";
  fs::create_directories(folder);
  write_file(folder / run_info_file, text);
  run_id_of(folder);
  add_session(folder, "quickstart", {"3f2a00c41b77", "000000000002"},
              {.from_step = 2, .command = {"trireme", "\xff"}, .version = "0.1.0", .rank_hosts = {"n1", "n1", "n2"}});
}

void read_lease(const std::string& text) {
  const auto holder = parse_lease(text);
  if (!holder) throw ConfigError({.allowed = "no lease"});
  is_dead(*holder);
  describe(*holder);
  TRIREME_CHECK(parse_lease(lease_text(*holder)).has_value(), "written it is no lease");
}

}  // namespace

std::vector<Format> resumed_formats() {
  return {format("resumed_state", {good_state()},
                 {"\"sequences_seen\": 9223372036854775807", "\"blend_start\": 16", "\"weight\": 0", "\"sets\": []", "null", "1e300"}, read_state),
          format("sessions", {"{\"run\": \"3f2a00c41b77\", \"name\": \"quickstart\", \"sessions\": [{\"session\": \"000000000001\"}]}\n"},
                 {"null", "[]", "\"run\": 1"}, read_sessions),
          format("lease", {lease_text(this_process({"3f2a00c41b77", "000000000001"}))}, {"\"pid\":-1,", "\"beat\":1e300", "null"}, read_lease)};
}

}  // namespace trireme::fuzz
