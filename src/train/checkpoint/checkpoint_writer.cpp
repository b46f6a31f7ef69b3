#include "train/checkpoint/checkpoint_writer.h"

#include <atomic>
#include <thread>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "comm/error_text.h"
#include "nn/out_of_memory.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/checkpoint_index.h"
#include "train/checkpoint/checkpoint_state.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/safetensors.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

// Copies to host memory. A tensor that is on the host already is copied too: training goes on and changes it.
std::vector<NamedTensor> snapshot(const std::vector<NamedTensor>& tensors) {
  at::NoGradGuard no_grad;
  std::vector<NamedTensor> copies;
  copies.reserve(tensors.size());
  for (const NamedTensor& t : tensors) {
    at::Tensor copy = at::empty(t.tensor.sizes(), t.tensor.options().device(at::kCPU).requires_grad(false));
    copy.copy_(t.tensor);
    copies.push_back({t.name, std::move(copy)});
  }
  return copies;
}

template <class F>
std::string error_of(F&& action) {
  try {
    action();
    return {};
  } catch (const RuntimeFailure& e) {
    return e.detail().reason;
  } catch (const std::exception& e) {
    return comm::error_text(e);
  }
}

}  // namespace

struct CheckpointWriter::State {
  CheckpointWriterOptions options;
  std::shared_ptr<CommitBarrier> barrier;
  std::thread thread;
  std::atomic<bool> failed{false};
  std::atomic<std::int64_t> last_step{-1};
  std::atomic<std::int64_t> snapshot_bytes{0};
  std::string failure;  // written before `failed` is set
  int failed_rank = -1;
  int num_saves = 0;
  double last_copy_bytes = 0;

  void write_own(std::int64_t step, const std::vector<NamedTensor>& tensors) const;
  void commit(std::int64_t step, const nlohmann::json& state) const;
  void run(int save, std::int64_t step, const std::vector<NamedTensor>& tensors, const nlohmann::json& state);
  void wait() {
    if (thread.joinable()) thread.join();
  }
};

void CheckpointWriter::State::write_own(std::int64_t step, const std::vector<NamedTensor>& tensors) const {
  const fs::path folder = unfinished_path(options.folder, step);
  fs::create_directories(folder);
  const fs::path file = folder / rank_file(options.rank);
  fs::remove(file);  // of a run that died here
  if (!tensors.empty()) write_safetensors(file, tensors, rank_file_metadata(step, options.writer, tensors));
}

void CheckpointWriter::State::commit(std::int64_t step, const nlohmann::json& state) const {
  const fs::path folder = unfinished_path(options.folder, step);
  if (options.before_commit) options.before_commit();
  CheckpointIndex index = index_rank_files(folder, step, options.writer, options.num_ranks);
  check_complete(index, options.model, options.frozen);
  const auto write = [&](const char* file, const std::string& text) {
    write_file_atomically(folder / file, text);
    index.files[file] = checksum_of_bytes(text);
  };
  write(model_file, model::to_toml(options.model));
  write(state_file, state_text(state));
  if (!options.companions.empty() && fs::is_directory(options.companions))
    fs::copy(options.companions, folder / companion_folder, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  write_file_atomically(folder / index_file, to_json_text(index));
  publish(folder, options.folder / checkpoint_name(step));
  prune_checkpoints(options.folder, options.keep, step);
}

void CheckpointWriter::State::run(int save, std::int64_t step, const std::vector<NamedTensor>& tensors,
                                  const nlohmann::json& state) {
  const std::string key = fmt::format("{}-step-{}", save, step);
  try {
    const Agreed written = barrier->arrive(key + "/written", options.rank, error_of([&] { write_own(step, tensors); }));
    std::string error;
    if (options.rank == 0) {
      if (written.error.empty()) error = error_of([&] { commit(step, state); });
      if (!written.error.empty() || !error.empty()) {
        std::error_code ignored;
        fs::remove_all(unfinished_path(options.folder, step), ignored);
      }
    }
    const Agreed committed = barrier->arrive(key + "/committed", options.rank, error);
    const Agreed& wrong = written.error.empty() ? committed : written;
    if (!wrong.error.empty()) throw RuntimeFailure({.rank = wrong.rank, .operation = "checkpoint", .reason = wrong.error});
    last_step = step;
    return;
  } catch (const RuntimeFailure& e) {
    failed_rank = e.detail().rank;
    failure = e.detail().reason;
  } catch (const std::exception& e) {
    failure = nn::out_of_memory(e).value_or(comm::error_text(e));
  }
  failure = fmt::format("the checkpoint of step {} was not written: {}", step, failure);
  if (const auto latest = latest_checkpoint(options.folder))
    failure += fmt::format(" (earlier checkpoints in {} are intact, the newest of step {})", options.folder.string(), latest->step);
  failed = true;
}

CheckpointWriter::CheckpointWriter(CheckpointWriterOptions options, std::shared_ptr<CommitBarrier> barrier)
    : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->barrier = std::move(barrier);
  if (state_->options.rank != 0) return;
  try {
    fs::create_directories(state_->options.folder);
    remove_unfinished(state_->options.folder);
  } catch (const fs::filesystem_error& e) {
    throw ConfigError(
        {.file = state_->options.folder.string(), .allowed = fmt::format("cannot hold checkpoints: {}", e.what())});
  }
}

CheckpointWriter::~CheckpointWriter() {
  if (state_->thread.joinable()) state_->barrier->cancel();
  state_->wait();
}

void CheckpointWriter::save(std::int64_t step, const std::vector<NamedTensor>& owned, nlohmann::json state) {
  finish();
  if (state_->last_step == step) return;
  state["step"] = step;
  const int save = state_->num_saves++;
  if (!state_->options.asynchronous) {
    state_->run(save, step, owned, state);
    return check();
  }
  std::vector<NamedTensor> copies = snapshot(owned);
  std::int64_t bytes = 0;
  for (const NamedTensor& t : copies) bytes += static_cast<std::int64_t>(t.tensor.nbytes());
  state_->snapshot_bytes = bytes;
  state_->last_copy_bytes = static_cast<double>(bytes);
  state_->thread =
      std::thread([s = state_.get(), save, step, copies = std::move(copies), state = std::move(state)]() mutable {
        s->run(save, step, copies, state);
        copies.clear();
        s->snapshot_bytes = 0;
      });
}

bool CheckpointWriter::failed() const {
  return state_->failed;
}

void CheckpointWriter::check() {
  if (state_->failed) throw RuntimeFailure({.rank = state_->failed_rank, .operation = "checkpoint", .reason = state_->failure});
}

void CheckpointWriter::finish() {
  state_->wait();
  check();
}

void CheckpointWriter::went_back() {
  finish();
  state_->last_step = -1;
}

std::int64_t CheckpointWriter::last_step() const {
  return state_->last_step;
}
std::int64_t CheckpointWriter::snapshot_bytes() const {
  return state_->snapshot_bytes;
}

double CheckpointWriter::last_copy_bytes() const {
  return state_->last_copy_bytes;
}

}  // namespace trireme::train
