#include "trireme/prompts.h"

#include <algorithm>
#include <charconv>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/utf8.h"
#include "trireme/prompt_input.h"

namespace trireme::apps {

namespace {

// What `trireme data` refuses, no model has seen. A prompt of bytes can be given by --prompt-ids.
void check_is_text(const std::string& text, const std::string& file) {
  const std::size_t bad = std::min(first_not_utf8(text), text.find('\0'));
  if (bad >= text.size()) return;
  throw ConfigError({.file = file, .key = file.empty() ? "--prompt" : "--prompt-file",
                     .allowed = fmt::format("a prompt must be text in UTF-8: byte {} of one is 0x{:02x}", bad,
                                            static_cast<unsigned char>(text[bad]))});
}

std::vector<std::string> prompts_of_file(const std::string& file, const std::string& separator) {
  std::istringstream in(read_prompt_file(file));
  std::vector<std::string> out;
  std::string together;
  bool any = false;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (separator.empty()) {
      out.push_back(line);
    } else if (line == separator) {
      out.push_back(std::exchange(together, {}));
      any = false;
    } else {
      together += (any ? "\n" : "") + line;
      any = true;
    }
  }
  if (any) out.push_back(together);
  if (out.empty()) throw ConfigError({.file = file, .key = "--prompt-file", .allowed = "holds no prompt"});
  return out;
}

std::vector<std::int32_t> ids_of(const std::string& list, std::int64_t vocab_size) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError({.key = "--prompt-ids", .value = list, .allowed = why});
  };
  std::vector<std::int32_t> out;
  const char *at = list.data(), *end = list.data() + list.size();
  while (at < end) {
    std::int64_t id = -1;
    const auto [rest, error] = std::from_chars(at, end, id);
    if (error == std::errc::result_out_of_range || (error == std::errc{} && (id < 0 || id >= vocab_size)))
      refuse(fmt::format("token ids from 0 to {}, below the model's vocabulary of {}", vocab_size - 1, vocab_size));
    if (error != std::errc{} || (rest != end && *rest != ',')) refuse("token ids with commas between them");
    out.push_back(static_cast<std::int32_t>(id));
    at = rest + (rest != end ? 1 : 0);
  }
  if (list.ends_with(',')) refuse("token ids with commas between them, and none behind the last");
  if (out.empty()) refuse("at least one token id");
  return out;
}

}  // namespace

void take_input(PromptOptions& options) {
  if (!options.texts.empty() || !options.file.empty() || !options.ids.empty()) return;
  std::string text = read_prompt_input();
  if (text.ends_with('\n')) text.pop_back();
  options.texts.push_back(std::move(text));
}

std::vector<Prompt> read_prompts(const PromptOptions& given, const train::PromptTokens& tokens,
                                 std::int64_t vocab_size) {
  PromptOptions options = given;
  take_input(options);
  std::vector<std::string> texts = options.texts;
  if (!options.file.empty())
    for (std::string& text : prompts_of_file(options.file, options.separator)) texts.push_back(std::move(text));
  std::vector<Prompt> out;
  for (std::string& text : texts) {
    check_is_text(text, given.file);
    Prompt prompt{.tokens = tokens.begin};
    if (text.empty()) prompt.tokens = tokens.nothing;
    tokens.tokenizer->encode(text, prompt.tokens);
    if (prompt.tokens.empty())
      throw ConfigError({.key = "--prompt",
                         .value = text,
                         .allowed = text.empty() ? "text: this tokenizer has no token that a text begins with"
                                                 : "text that this tokenizer has tokens for"});
    prompt.text = std::move(text);
    out.push_back(std::move(prompt));
  }
  for (const std::string& list : options.ids) out.push_back({.tokens = ids_of(list, vocab_size)});
  return out;
}

}  // namespace trireme::apps
