// Writes sharded checkpoints (layout: checkpoint_folder.h), each rank the tensors that it owns.
//
//   CheckpointWriter writer({.folder = run / "checkpoints", .rank = rank, .num_ranks = world, .model = spec}, barrier);
//   ... after step 120, on every rank:
//   writer.save(120, owned_tensors(model, optimizer, ownership), {{"seed", seed}, {"tokens_seen", tokens}});
//   ... after every step:
//   if (writer.failed()) ...            // agree with the other ranks, then
//   writer.check();                     // throws what went wrong
//   ... at the end:
//   writer.finish();
//
// save() copies the tensors to host buffers and returns; a thread of its own writes them, meets the other ranks at the
// barrier, and on rank 0 writes the index, renames the folder to its final name and removes the oldest ones. So at
// every moment the folder under a final name is complete, and a failure leaves the earlier ones as they were. The
// folder must be the same for all ranks (a shared file system).
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "model/model_spec.h"
#include "plan/frozen_parameters.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/commit_barrier.h"
#include "train/checkpoint/named_tensor.h"
#include "train/run_folder/run_identity.h"

namespace trireme::train {

struct CheckpointWriterOptions {
  std::filesystem::path folder;  // made where it does not exist
  int rank = 0;
  int num_ranks = 1;
  KeepPolicy keep;
  RunIdentity writer;                // goes into every rank's file; a checkpoint with a file of another is not committed
  std::filesystem::path companions;  // folder whose files go into hf/; empty or absent: none
  std::function<void()> before_commit;  // rank 0, in the writing thread; what it throws keeps the checkpoint from its name
  bool asynchronous = true;  // false: save() returns when the checkpoint is complete, and copies nothing
  model::ModelSpec model;    // goes into model.toml, and the checkpoint must hold all of its parameters
  plan::FrozenParameters frozen;  // of which it holds no optimizer state
};

class CheckpointWriter {
 public:
  // On rank 0 removes what an earlier run left unfinished: made on all ranks before the first step.
  CheckpointWriter(CheckpointWriterOptions options, std::shared_ptr<CommitBarrier> barrier);
  ~CheckpointWriter();  // without finish(): the run is failing; cancels the barrier and gives up what is being written
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Collective: every rank, in the same order of steps. Waits for the previous save first, and throws its error. `step`
  // is added to the state. A step that this writer has saved already is not saved again (a run's last step may also be
  // a periodic one). Afterwards the caller may change the tensors.
  void save(std::int64_t step, const std::vector<NamedTensor>& owned, nlohmann::json state);

  // The last save has failed (the same on all ranks once all have finished it).
  bool failed() const;
  // Throws RuntimeFailure where it has, with the step and the reason (and the rank whose disk is full, say) and, where
  // there are any, that the earlier checkpoints are intact. Does not wait.
  void check();
  // Waits for the save under way, then check().
  void finish();

  // The run went back to an earlier step: later ones are saved again when it comes to them. No save is under way.
  void went_back();

  std::int64_t last_step() const;       // of the last complete checkpoint that this writer saved; -1: none
  std::int64_t snapshot_bytes() const;  // host memory held by the save under way
  double last_copy_bytes() const;       // what the last asynchronous save held

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::train
