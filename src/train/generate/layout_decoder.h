// A model that lies over pipeline x expert ranks, for generating: every rank hosts its part, and all of them together
// are a Decoder. Rank (stage s, place e) hosts stage s's layers and the e-th block of experts. The first rank of a
// stage computes all but the experts and keeps the keys and values; the experts' rows are shown to every rank of the
// stage, and their results are added up (each row has one expert, so the sum rounds nothing).
#pragma once
#include <optional>
#include <vector>

#include "comm/group.h"
#include "nn/key_value_cache.h"
#include "nn/model.h"
#include "train/generate/generator.h"

namespace trireme::train {

// pp stages x ep ranks, as a layout of training has them. ConfigError (--pp, --ep) where the model can't be cut so.
plan::Mesh generation_mesh(const model::ModelSpec& model, int pp, int ep);
nn::Hosted hosted_for_generation(const model::ModelSpec& model, const plan::Mesh& mesh, int rank);

// Rank 0 decides what is computed, by its Decoder; the others serve until it has finished. Every operation is told to
// all ranks first, so only rank 0 needs prompts, a tokenizer and random numbers.
class LayoutDecoder {
 public:
  // References outlive it. Collective: every rank of the mesh makes one, of the same sizes.
  LayoutDecoder(nn::Model& part, const plan::Mesh& mesh, comm::Communicator& communicator, int rank, std::int64_t slots,
                std::int64_t capacity);

  Decoder decoder();  // rank 0
  void finish();      // rank 0, once, at the end
  void serve();       // the other ranks: returns when rank 0 has finished

  std::int64_t cache_bytes() const { return cache_ ? cache_->bytes() : 0; }  // on this rank

 private:
  std::vector<std::int64_t> told(std::vector<std::int64_t> order);
  at::Tensor next(const std::vector<nn::SlotTokens>& sequences);
  at::Tensor stage(const nn::NewTokens& tokens, std::int64_t rows);
  nn::Boundary layer(int layer, nn::Boundary b, const nn::NewTokens& tokens);
  void help(int layer, std::int64_t rows);
  at::Tensor run_experts(int layer, const std::vector<std::int64_t>& counts_E, const at::Tensor& rows_RD,
                         const at::Tensor& scores_R);

  nn::Model& model_;
  plan::Mesh mesh_;
  comm::Communicator& communicator_;
  int rank_;
  bool leads_;                          // the first rank of its stage
  std::vector<std::int64_t> to_clear_;  // slots, with the next order
  std::optional<nn::KeyValueCache> cache_;
};

}  // namespace trireme::train
