// The number formats of a training step.
#pragma once
#include <string>

namespace trireme::model {

// Of matmuls. Weights, gradients and states have formats of their own in `Precision`.
enum class ComputeFormat { float32, bfloat16, float16, float8, mxfp8, nvfp4 };

const char* name_of(ComputeFormat format);
ComputeFormat compute_format_from_name(const std::string& name);  // std::invalid_argument

// Narrower than 16 bits: inputs of matmuls are quantised.
constexpr bool is_narrow(ComputeFormat f) {
  return f == ComputeFormat::float8 || f == ComputeFormat::mxfp8 || f == ComputeFormat::nvfp4;
}

struct Precision {
  ComputeFormat compute = ComputeFormat::bfloat16;
  double weight_bytes = 2;      // an element of the parameters that the forward uses
  double gradient_bytes = 4;    // of the accumulated gradients
  double master_bytes = 4;      // 0: no master weights
  double moment_bytes = 8;      // of all moments of an element together (AdamW 2 x 4, Muon 1 x 4)
  double reduce_bytes = 4;      // an element of a gradient in a message
  double gather_bytes = 2;      // an element of a parameter in a message
  double activation_bytes = 2;
  double dispatch_bytes = 2;    // an element of a routed row in a message, forward; combine and backward use 2
  bool operator==(const Precision&) const = default;
};

}  // namespace trireme::model
