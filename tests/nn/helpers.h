// Small models and batches for the tests of nn.
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <string>

#include "nn/model.h"
#include "nn/single_device.h"

namespace trireme::nn {

// Hidden 32, 4 heads and 2 key/value heads of 8, a dense layer of width 37 and an MoE layer of 5 experts of width 37,
// top 2, vocabulary 99: odd widths that no vector length divides.
model::ModelSpec tiny_spec();

// Three times as wide, with 6 heads of 16, 8 experts of width 48, top 3, vocabulary 1,000: tensors that count in bytes.
model::ModelSpec medium_spec();

// Uniform tokens from a fixed seed; every token has a target of weight 1; positions restart at the documents, whose
// lengths fill each sequence in turn (empty: one document a sequence).
Batch make_batch(std::int64_t sequences, std::int64_t length, std::int64_t vocab,
                 const std::vector<std::int64_t>& document_lengths = {}, std::uint64_t seed = 1);

// A whole model with initial values from seed 7 (stddev 0.2, so that every path matters) and zeroed gradients.
std::unique_ptr<Model> make_model(const model::ModelSpec& spec, at::ScalarType dtype, bool reference,
                                  std::int64_t head_chunk_tokens = 512);
void bind_gradients(Model& model);

// ||a - b|| / ||b|| in double.
double relative_error(const at::Tensor& a, const at::Tensor& b);

// The largest relative error over the gradients of all named parameters, and its name.
struct Worst {
  double error = 0;
  std::string name;
};
Worst worst_gradient_error(Model& a, Model& b);

}  // namespace trireme::nn
