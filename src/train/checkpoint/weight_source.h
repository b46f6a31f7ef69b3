// Where initial weights come from: a Trireme checkpoint or a Hugging Face folder.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "model/model_spec.h"
#include "model/parameters.h"
#include "nn/parameter.h"
#include "train/checkpoint/found_weights.h"

namespace trireme::train {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual const model::ModelSpec& model() const = 0;
  // The parameter's tensor, of its shape and of any floating type; read only now, and only this one.
  // ConfigError with file and tensor name where it is missing or has another shape.
  virtual at::Tensor read(const model::ParameterSpec& parameter) const = 0;
  // What read() would find wrong, from the files' headers alone.
  virtual void check(const model::ParameterSpec& parameter) const = 0;
  // What the user should know: which of two sets of weights is read, what has no checksum. Empty: nothing.
  virtual std::string note() const = 0;
  // Router selection bias (experts; float32) of a layer; undefined where the source has none.
  virtual at::Tensor selection_bias(int layer) const = 0;
};

// Of the folder that find_weights finds.
std::unique_ptr<WeightSource> open_weights(const std::filesystem::path& path, const CheckpointChoice& choice = {});

// Before any rank starts: that the source's model is `model` and that every tensor that it needs is there, of its shape, in
// files that are whole. ConfigError with the file and the tensor. Reads headers, no data.
void check_weights(const WeightSource& source, const model::ModelSpec& model);

// Copies, rounding where the types differ, all pieces of the parameters. The source's model must be `model` (see
// check_same_model). Afterwards call AdamW::adopt_values.
void load_weights(const WeightSource& source, const model::ModelSpec& model,
                  const std::vector<nn::Parameter*>& parameters);

// ConfigError with `file`, the first key, such as model.hidden, that makes two models incompatible, and the other ones:
// everything that gives tensors their shapes or the computation its meaning. Names, initial values and loss coefficients
// may differ.
void check_same_model(const model::ModelSpec& found, const model::ModelSpec& wanted, const std::string& file);

}  // namespace trireme::train
