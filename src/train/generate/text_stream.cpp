#include "train/generate/text_stream.h"

#include <algorithm>

#include "base/errors.h"
#include "train/generate/utf8_text.h"

namespace trireme::train {
namespace {

constexpr std::size_t context = 8;       // settled tokens that those behind them are decoded with
constexpr std::size_t most_waiting = 4;  // no character has more bytes, and no token less than one

bool ends_with_replacement(const std::string& text) {
  return text.ends_with("\xEF\xBF\xBD");
}

}  // namespace

TokenText::TokenText(const Tokenizer& tokenizer, const std::vector<std::int32_t>& prompt) : tokenizer_(tokenizer) {
  window_.assign(prompt.end() - static_cast<std::ptrdiff_t>(std::min(context, prompt.size())), prompt.end());
  num_settled_ = window_.size();
  settled_text_ = tokenizer_.decode(window_);
}

std::string TokenText::add(std::int32_t token) {
  window_.push_back(token);
  return settled(false);
}

std::string TokenText::finish() {
  return window_.size() > num_settled_ ? settled(true) : std::string();
}

std::string TokenText::settled(bool last) {
  const std::string all = tokenizer_.decode(window_);
  // A tokenizer may decode a character's first tokens to something else than it decodes the whole to.
  const auto [before, behind] = std::mismatch(settled_text_.begin(), settled_text_.end(), all.begin(), all.end());
  const std::string_view added = std::string_view(all).substr(static_cast<std::size_t>(behind - all.begin()));
  const Utf8Text text = utf8_text(added, last);
  // Some tokenizers decode a character's first bytes to U+FFFD.
  if (!last && ends_with_replacement(text.text) && window_.size() - num_settled_ < most_waiting) return {};
  if (window_.size() > context) window_.erase(window_.begin(), window_.end() - static_cast<std::ptrdiff_t>(context));
  settled_text_ = tokenizer_.decode(window_);
  const std::size_t waiting = std::min(added.size() - text.taken, settled_text_.size());  // bytes of a character
  settled_text_.resize(settled_text_.size() - waiting);
  num_settled_ = window_.size() - std::min(waiting, window_.size());
  return text.text;
}

std::string StopTexts::add(const std::string& text) {
  if (stopped_) return {};
  held_ += text;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    return std::exchange(held_, {}).substr(0, first);
  }
  std::size_t keep = 0;  // the longest end of it that begins a stop text
  for (const std::string& stop : stops_)
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > keep; --n)
      if (held_.ends_with(std::string_view(stop).substr(0, n))) keep = n;
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

std::string StopTexts::finish() {
  return stopped_ ? std::string() : std::exchange(held_, {});
}

}  // namespace trireme::train
