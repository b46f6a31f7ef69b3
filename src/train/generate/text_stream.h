// A text whose tokens come one by one: what of it is settled, and where a stop text ends it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "train/data/tokenizer.h"

namespace trireme::train {

// Tokens to UTF-8 text. What a token adds depends on those before it (spaces, characters of several tokens), so the
// last tokens of the prompt come first; bytes of a character that is not complete are held back. The cost of a token
// does not grow with the text.
class TokenText {
 public:
  TokenText(const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt);

  std::string add(std::int32_t token);  // the text that it settles, often that of the token
  std::string finish();                 // what was held back, incomplete characters as U+FFFD

 private:
  std::string settled(bool last);

  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> window_;  // some settled tokens, then those that wait
  std::size_t num_settled_ = 0;
  std::string settled_text_;  // what of the window's text has been given out
};

// Ends a text before the first of some stop texts; holds back what may become one.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  std::string add(const std::string& text);  // what is certainly before any stop text
  std::string finish();                      // what was held back, at the end of the tokens
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace trireme::train
