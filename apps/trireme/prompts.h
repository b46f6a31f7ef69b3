// Prompts as `trireme generate` is given them.
#pragma once
#include <string>
#include <vector>

#include "train/generate/trained_model.h"
#include "trireme/generate_output.h"

namespace trireme::apps {

struct PromptOptions {
  std::vector<std::string> texts;  // --prompt
  std::string file;                // --prompt-file
  std::string separator;           // a line of the file that stands between prompts; empty: each line is a prompt
  std::vector<std::string> ids;    // --prompt-ids: "5,17,3"
};

// Where no prompt is given, all of standard input becomes one, but for one line end at its end. ConfigError where that
// is a terminal, and as read_prompt_input().
void take_input(PromptOptions& options);

// In the order: texts, file, ids, and standard input where there are none.
// `tokenizer` may hold none where ids alone are given. ConfigError for a file that can't be read or holds no prompt,
// ids that are none or lie outside of the vocabulary, a terminal as standard input.
std::vector<Prompt> read_prompts(const PromptOptions& options, const train::PromptTokens& tokenizer,
                                 std::int64_t vocab_size);

}  // namespace trireme::apps
