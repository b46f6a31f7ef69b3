// Floating-point operations a token, under a convention that is spelled out: published figures differ by half of the
// attention, the head, the router or a recomputed forward, so a number means nothing without one.
#pragma once
#include <cstdint>
#include <string>

#include "model/parameter_parts.h"

namespace trireme::model {

// Which query-key pairs count. Causal: half of the square, s / 2 keys a query. Full: the square, s keys a query.
enum class AttentionSquare { causal, full };

struct FlopConvention {
  AttentionSquare square = AttentionSquare::causal;
  bool windows = true;  // windowed and compressed layers count the keys that they see; false: as if they were full
  bool head = true;     // the projection to the vocabulary
  bool router = true;
  bool mtp = true;    // MTP blocks and their passes through the head
  double passes = 3;  // 1: a forward; 3: with its backward; 4: with a forward recomputed in full
  bool operator==(const FlopConvention&) const = default;
};

// Model FLOPs as recent Megatron-LM and Megatron-Bridge report them: causal, the router left out.
inline constexpr FlopConvention megatron_flops{.router = false};
// As torchtitan, llm-foundry, DGX Cloud's benchmarks and Korthikanti et al. (arXiv 2205.05198): the full square.
inline constexpr FlopConvention full_square_flops{.square = AttentionSquare::full};

// Multiplies and adds both count.
struct FlopsPerToken {
  double projections = 0;  // of attention and linear mixers
  double scores = 0;       // of query-key pairs and what they weight; a linear mixer's convolution and scan
  double router = 0;
  double routed_experts = 0;
  double shared_experts = 0;
  double dense = 0;
  double mtp = 0;   // projections of the MTP blocks; their layers count above
  double head = 0;  // with the MTP blocks'
  double total() const { return projections + scores + router + routed_experts + shared_experts + dense + mtp + head; }
  FlopsPerToken& operator+=(const FlopsPerToken& other);
};

// Mean keys that a query of this layer attends to in a sequence of this length. A window of w keys: w - w^2 / 2s
// (causal); a chunk: w / 2.
double keys_per_query(const ModelSpec& spec, int layer, std::int64_t sequence_length, const FlopConvention& convention);

// Of a token in one layer, forward: query-key pairs and what they weight, an index's included; a linear mixer's
// convolution and scan.
double score_flops(const ModelSpec& spec, int layer, std::int64_t sequence_length, const FlopConvention& convention = {});

// One layer, one forward pass: convention.passes doesn't apply. Of matmuls: two FLOPs for each element of a weight that
// tokens are multiplied with (model/description).
FlopsPerToken layer_flops(const ModelSpec& spec, int layer, std::int64_t sequence_length,
                          const FlopConvention& convention = {});

// All passes. A range without its MTP blocks, or a convention without them, leaves them out.
FlopsPerToken flops_of(const ModelSpec& spec, const LayerRange& range, std::int64_t sequence_length,
                       const FlopConvention& convention = {});
FlopsPerToken flops_per_token(const ModelSpec& spec, std::int64_t sequence_length,
                              const FlopConvention& convention = {});

// Elements of the matrices that a mixer multiplies a token with.
double projection_elements(const ModelSpec& spec, int layer);

// Parameters that a token is multiplied with in one forward pass of the model, without its MTP blocks.
std::int64_t active_matmul_parameters(const ModelSpec& spec);

// "forward and backward, causal attention (half the square), with head and MTP, without router": what a reader needs
// beside the number. Says of windows and MTP only where the model has them.
std::string to_text(const FlopConvention& convention, const ModelSpec& spec);

// "260.0 GFLOP/token (s 4096; forward and backward, ...)"
std::string gflop_per_token_text(const ModelSpec& spec, std::int64_t sequence_length, const FlopConvention& convention);

}  // namespace trireme::model
