// What a rank puts into a checkpoint and takes from one, under global names:
//
//   <parameter>                        the value, in the dtype of the parameters
//   optimizer.exp_avg.<parameter>      first moment, in max(float32, dtype); none of these three of frozen parameters
//   optimizer.exp_avg_sq.<parameter>   second moment
//   optimizer.master.<parameter>       master weight, where the value is of lower precision
//   layers.L.router.selection_bias     where the model has one
//
// The tensors are views of the live ones: save() reads them, load() writes them.
#pragma once
#include <string>
#include <vector>

#include "nn/model.h"
#include "plan/run_spec.h"
#include "train/checkpoint/checkpoint_reader.h"
#include "train/checkpoint/named_tensor.h"
#include "train/optim/adamw.h"
#include "train/optim/ownership.h"

namespace trireme::train {

std::string master_name(const std::string& parameter);
std::string selection_bias_name(int layer);

// Everything that the rank hosts: to load. `optimizer` may be null (weights only).
std::vector<NamedTensor> hosted_tensors(const std::vector<nn::Parameter*>& parameters, const AdamW* optimizer);
// What it owns of that: to save. Every tensor of the model once over all ranks.
std::vector<NamedTensor> owned_tensors(const std::vector<nn::Parameter*>& parameters, const AdamW* optimizer,
                                       const Ownership& ownership);

// The same of a model part, with the selection biases of its layers.
std::vector<NamedTensor> hosted_tensors(nn::Model& model, const AdamW* optimizer);
std::vector<NamedTensor> owned_tensors(nn::Model& model, const AdamW* optimizer, const Ownership& ownership);

// ConfigError with file and tensor where resume() would find one missing, or of another shape or dtype than the run's. Looks at
// the index, and builds no model.
void check_tensors(const CheckpointReader& reader, const plan::RunSpec& run);
// Resumes: checks the model, loads everything that the rank hosts and sets the optimizer's step. A parameter that is
// trained now and was frozen in the checkpoint (frozen_in) has no optimizer state there: its own starts at zero.
void resume(const CheckpointReader& reader, nn::Model& model, AdamW& optimizer);
// What the run that wrote a checkpoint froze: state.json's "frozen", a list of patterns. ConfigError where it is none.
plan::FrozenParameters frozen_in(const CheckpointReader& reader);
// The weights alone: values, and selection biases where the source has them. The source's model must be the model's.
void load_model(const WeightSource& source, nn::Model& model);
// Starts from weights: these, then the optimizer's masters.
void start_from(const WeightSource& source, nn::Model& model, AdamW& optimizer);

}  // namespace trireme::train
