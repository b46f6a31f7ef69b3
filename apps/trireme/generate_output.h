// What `trireme generate` shows: texts as they come or, with --json, one JSON object a text. Texts that are made at the
// same time are shown one after another, in the order of their prompts.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "train/generate/generator.h"
#include "train/generate/text_stream.h"

namespace trireme::apps {

// A prompt as it was given, for the output.
struct Prompt {
  std::string text;                  // empty where token ids were given
  std::vector<std::int32_t> tokens;  // what the model reads
};

struct GenerateOutputOptions {
  bool json = false;
  bool terminal = false;  // standard output is one: control characters are made visible
  std::uint64_t seed = 0;
  std::vector<std::string> stops;
};

class GenerateOutput {
 public:
  // `tokenizer` may be null: tokens are then shown as numbers. References outlive it.
  GenerateOutput(GenerateOutputOptions options, const train::Tokenizer* tokenizer, const std::vector<Prompt>& prompts,
                 const std::vector<train::Request>& requests);
  ~GenerateOutput();

  bool token(std::size_t request, std::int32_t token);  // false: a stop text has come
  void end(std::size_t request, const train::Generated& generated);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::apps
