// Texts from a model: prompts and their continuations, several at a time. A sequence that ends makes room for the next
// one at once; prompts are read while others are being continued.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include <ATen/core/Tensor.h>

#include "nn/key_value_cache.h"
#include "train/generate/sampling.h"

namespace trireme::nn {
class Model;
}

namespace trireme::train {

enum class Finish {
  eos,     // the model ended the text
  length,  // max_tokens
  stop,    // whoever takes the tokens had enough (a stop text)
};
const char* name_of(Finish finish);

struct Request {
  std::vector<std::int32_t> prompt;  // at least one token
  std::int64_t prompt_number = 0;    // with the sample's number: which random numbers it gets
  std::int64_t sample_number = 0;
};

struct Generated {
  std::vector<std::int32_t> tokens;  // behind the prompt; without eos
  Finish finish = Finish::length;
  double seconds = 0;  // from when its prompt was begun
};

struct GenerateOptions {
  Sampling sampling;
  std::uint64_t seed = 0;
  std::int64_t max_tokens = 128;
  std::int64_t slots = 8;               // sequences at a time; the cache's
  std::int64_t max_step_tokens = 1024;  // new tokens in one forward: longer prompts are read in several
  std::vector<std::int32_t> ends;       // tokens that end a text
  std::int64_t num_tokens = 0;          // tokens that may be chosen: the tokenizer's; 0: all of the model's
};

// Of prompts that are being read, in several forwards where they are long.
struct PromptProgress {
  std::int64_t read = 0, all = 0;  // tokens of the prompts under way
  double seconds = 0;              // since generate() began
};

struct GenerateWork {
  std::int64_t forwards = 0;
  std::int64_t rows = 0;  // tokens that went through the model, each once
  double seconds = 0;
};

// Logits (sequences, V) of what follows the last new token of each slot; what is behind a slot's earlier tokens until
// it is cleared. A text begins by clearing its slot.
struct Decoder {
  std::function<at::Tensor(const std::vector<nn::SlotTokens>&)> next;
  std::function<void(std::int64_t slot)> clear;
};

// Of a whole model on this device with a cache of its own. References outlive it.
Decoder decoder_of(nn::Model& model, nn::KeyValueCache& cache);

// Gets every token as it comes; false ends its sequence. Sequences come interleaved, the tokens of each in order.
using OnToken = std::function<bool(std::size_t request, std::int32_t token)>;
using OnPrompts = std::function<void(const PromptProgress& progress)>;  // behind each forward that read a part of one
using OnEnd = std::function<void(std::size_t request, const Generated& generated)>;

// RuntimeFailure where logits are not finite: the weights are broken, and no token can be chosen.
GenerateWork generate(const Decoder& decoder, const GenerateOptions& options, const std::vector<Request>& requests,
                      const OnToken& on_token, const OnEnd& on_end, const OnPrompts& on_prompts = {});

}  // namespace trireme::train
