// Kernels: how an implementation does what a model needs, as data. Which tensors stay, what libraries hold, how much is
// fused, how often memory is passed over: facts of a release, read off its source or measured. The values of each
// implementation, with their sources, stand in configs/kernels/, which the program has inside; the defaults here are
// those of configs/kernels/plain.toml.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::model {

// What the loss does with the logits.
enum class LossKind {
  plain,     // logits, probabilities and their gradient, all in float32: 12 bytes a logit
  float32,   // a float32 copy of the logits becomes the probabilities and, in the backward, the gradient
  in_place,  // the gradient overwrites the logits, in their own format
  chunked,   // `loss_chunk_tokens` tokens' logits at a time; their gradient is made in the forward
};

struct Kernels {
  std::string name = "plain";

  // Which tensors stay.
  bool flash_attention = true;    // scores are made block by block; else scores and probabilities are stored
  bool dropout = false;           // masks of a byte an element: attention's probabilities and both residual branches
  bool fused_gate = true;         // the gated activation keeps its input; else also the activated half
  bool fused_norm = true;         // a norm keeps its input; else a float32 copy of it and the normalised input
  bool wide_norm = false;         // a norm that is not fused keeps the normalised input in float32, too
  bool remakes_norm = false;      // kernels behind a norm make it again from its input, instead of keeping it
  bool remakes_activation = false;  // the second matmul makes the gated activation again from what goes into it
  bool fused_score = true;        // the activation applies routed scores; else what it made before is kept, too
  bool views_of_projection = false;  // values are a part of the projection's output, which stays whole for them
  double rotation_kept_bytes = 0;  // sines and cosines that stay: a token and element of a head
  bool routing_maps = true;       // the router's choice stays as maps by token and expert
  double routing_row_bytes = 0;   // and as numbers, for each routed row
  bool rotated_copies = true;     // queries and keys are rotated into new tensors; the projection's output goes. Else
                                  // they are rotated where they are, or where their own norms put them
  bool norm_statistics = true;    // 4 bytes a token
  bool scores_on_output = false;  // routed outputs are weighted after the combine, and stay for the scores' gradient
  bool unsorting_keeps_rows = false;  // received rows' way back keeps what it was given: the experts' outputs
  bool sorts_received_rows = true;    // received rows are copied into the order of the rank's experts
  bool exchanged_rows_stay = false;  // rows before and after the dispatch live until the block's forward has ended, and
                                     // those before the combine until it has been undone
  bool pads_to_capacity = false;     // experts take a fixed number of rows: tokens x top-k / experts, dropping the rest
  bool last_gradients_stay = false;  // between stages: the gradients received and sent last, until the next ones
  bool context_output_twice = false;  // with cp: the attention's output before and after its exchange
  bool caches_float8_weights = true;  // float8 compute: both orientations of a weight stay between micro-batches
  LossKind loss = LossKind::float32;
  std::int64_t loss_chunk_tokens = 4096;
  int router_score_bytes = 4;   // of a score; several such tensors stay
  int vocabulary_multiple = 1;  // rows of the vocabulary's matrices are padded to a multiple of this times tp
  int vocabulary_extra = 0;     // rows that the tokenizer adds before padding

  // Calls of the framework, and passes over memory.
  bool tiled = false;  // a call takes a tile of rows through all operators behind one another that need no other rows;
                       // what is made for the next operator only exists for a tile of each thread
  bool permutes_by_token = false;    // the permutation reads a token once for all of its rows, and what comes back is
                                     // weighted, summed and added to the residual stream in one pass; else by row
  double norm_backward_passes = 3;   // over a norm's elements
  double router_forward_passes = 5;  // over the scores of all experts
  double router_backward_passes = 4;
  double router_loss_passes = 0;         // of the router's losses, where they have a pass of their own
  double embedding_backward_passes = 4;  // over the tokens' rows
  int attention_block_queries = 0;       // scores of so many queries at a time lie in scratch of each thread

  // Buffers that live as long as the process.
  bool unused_weight_gradients = false;  // one for each shape: handed to the engine where the real ones are accumulated
  double gemm_workspace_bytes = 0;       // of matmul libraries, all streams together
  double head_gemm_workspace_bytes = 0;  // more of them on a rank with the head, whose matmul is another library's
  double grouped_gemm_workspace_bytes = 0;  // more of them in a model with experts
  double attention_workspace_bytes = 0;     // an element of the queries, in the attention's backward
  double rotary_table_bytes = 0;            // for each position of the rank's sequence and element of a head
  int gathered_layers = 2;                  // parameters sharded: layers whose full parameters are there at a time
  int reduced_layers = 2;                   // gradients sharded: layers whose full gradients are there at a time
  int optimizer_slices = 16;                // optimizer state in host memory: it comes back in this many parts
  int swapped_layers = 1;                   // activations in host memory: further layers on their way out, or back

  // Outside the framework's allocator.
  double context_bytes = 0;       // of the driver, kernels and libraries
  double communicator_bytes = 0;  // of each communicator that a rank belongs to
  double all_to_all_bytes = 0;    // more of one that all-to-alls run on: a connection to each peer
  double fragmentation = 0;       // reserved beyond allocated, as a part of allocated
  bool operator==(const Kernels&) const = default;
};

// Those that come with the program (docs/memory.md): plain, eager, megatron, torchtitan, mindspeed, korthikanti, europa,
// trireme, trireme_device.
// ConfigError (key kernels) for another name.
Kernels find_kernels(const std::string& name);
std::vector<std::string> kernels_names();

// A TOML file of these keys, strict; `base` names the kernels whose values it changes (plain). ConfigError for a
// negative size and the like.
Kernels load_kernels(const std::filesystem::path& path);
Kernels parse_kernels(const std::string& toml, const std::string& file_name);
std::string to_toml(const Kernels& kernels);

}  // namespace trireme::model
