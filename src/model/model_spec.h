// An architecture as a value: what `nn` builds, what `plan` cuts and what `sim` prices. It describes more than `nn`
// computes: model/untrainable.h says which parts of a spec can only be planned.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/config_table.h"
#include "model/attention_spec.h"
#include "model/moe_spec.h"

namespace trireme::model {

// Where an imported config came from; export writes the same family.
enum class Family { trireme, mixtral, qwen3_moe };

// No model is larger; products of a few sizes stay whole numbers, and a list of the layers short.
inline constexpr int most_layers = 10'000, most_experts = 1 << 20, largest_width = 1 << 24;
inline constexpr double most_parameters = 9007199254740992.0;  // 2^53: beyond, a double can't count them

enum class Activation { silu, gelu, squared_relu };
enum class NormKind { rms, layer };  // a layer norm has a bias

// What a layer mixes tokens with, and its feed-forward. A layer of a pattern has only one of the two.
enum class Mixer { none, attention, linear };
enum class FeedForward { none, dense, moe };

struct ModelSpec {
  std::string name = "model";
  Family family = Family::trireme;
  std::int64_t vocab_size = 0;
  int hidden = 0;
  int num_layers = 0;
  int num_dense_layers = 0;  // the first ones, with a dense feed-forward of width dense_ffn; the rest as MoeSpec::every
  int dense_ffn = 0;
  double norm_eps = 1e-6;
  bool tied_embeddings = false;
  double init_std = 0.02;  // embedding and projections; norms start at 1
  AttentionSpec attention;
  MoeSpec moe;

  bool gated = true;  // every feed-forward: three matrices, down(act(gate x) * up x); false: two, down(act(up x))
  Activation activation = Activation::silu;
  bool mlp_bias = false;  // of the dense feed-forward's matrices
  NormKind norm = NormKind::rms;
  bool sandwich_norms = false;  // also a norm behind attention and behind the feed-forward, before their residuals
  int learned_positions = 0;    // rows of a learned position table (GPT); 0: rotary positions
  int residual_streams = 1;     // hyper-connections (DeepSeek-V4): the residual stream is this many hidden states wide
  int mtp_depth = 0;            // multi-token prediction: blocks behind the last layer; see mtp_blocks()
  bool mtp_shared = false;      // one block, applied mtp_depth times
  LinearMixerSpec linear;       // hybrid models
  std::string pattern;          // hybrid models whose layers are one block each: a letter a layer, M linear mixer,
                                // * attention, E MoE, - dense feed-forward. Empty: a mixer and a feed-forward each
  bool operator==(const ModelSpec&) const = default;

  // Layers num_layers, num_layers + 1, ... are those of the MTP blocks: attention and, in a model with experts, MoE.
  Mixer mixer(int layer) const;
  FeedForward feed_forward(int layer) const;  // moe only in a model with experts
  bool is_moe(int layer) const { return feed_forward(layer) == FeedForward::moe; }
  int num_moe_layers() const;  // of the num_layers

  // Keys that a query of this layer sees at most in an uncompressed sequence, itself included; 0: all before it.
  int window(int layer) const;
  int compression(int layer) const;  // tokens behind one compressed key (DeepSeek-V4); 0: none in this layer

  // Blocks of parameters behind the layers, each a layer with a norm of the token's embedding, one of the hidden state,
  // a projection from both (2 hidden -> hidden) and a norm before the head, which like the embedding is the model's own
  // (DeepSeek-V3, section 2.2).
  int mtp_blocks() const { return mtp_shared ? (mtp_depth > 0 ? 1 : 0) : mtp_depth; }
};

// The same model cut or stretched to this many layers: lists and patterns follow. The first dense layers stay, unless
// `num_dense_layers` >= 0 says otherwise.
ModelSpec with_layers(ModelSpec spec, int num_layers, int num_dense_layers = -1);

// Throws ConfigError naming the offending key ("model.moe.top_k") when the values don't fit together. `file` is for the
// error's text.
void validate(const ModelSpec& spec, const std::string& file);

// A `[model]` table (inline keys), validated; unknown keys are left to the table's finish(). Keys: docs/config.md.
ModelSpec read_model(ConfigTable& table);
std::string to_toml(const ModelSpec& spec);  // "[model]" and its sub-tables, every key

// Either a TOML file with a [model] table or a Hugging Face config.json (hf_config.h; or its folder), told apart by the
// ending .json. Overrides as of ConfigTable ("model.hidden=64").
ModelSpec load_model(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});

}  // namespace trireme::model
