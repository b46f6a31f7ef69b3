#include <algorithm>
#include <numeric>

#include "search/validation/resolve_row.h"

namespace trireme::search {

namespace {

// The notation expanded: "x*3" and "(...)*3" repeat, "," is dropped.
class Expander {
 public:
  explicit Expander(const std::string& text) : text_(text) {}
  std::string all() {
    std::string out = sequence();
    return at_ == text_.size() ? out : "";
  }

 private:
  std::string sequence() {
    std::string out;
    while (at_ < text_.size() && text_[at_] != ')') {
      std::string item;
      if (text_[at_] == '(') {
        ++at_;
        item = sequence();
        if (at_ == text_.size()) return "?";
        ++at_;
      } else {
        item = text_[at_++];
      }
      int times = 1;
      if (at_ + 1 < text_.size() && text_[at_] == '*' && std::isdigit(static_cast<unsigned char>(text_[at_ + 1]))) {
        times = 0;
        for (++at_; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_)
          times = std::min(4096, times * 10 + (text_[at_] - '0'));
      }
      if (item != ",")
        for (int i = 0; i < times && out.size() < 65536; ++i) out += item;
    }
    return out;
  }
  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

std::vector<std::int64_t> pipeline_layout(const std::string& text, int pieces, int num_layers) {
  // A word of the notation's letters that starts with the embedding.
  for (std::size_t at = text.find("Et"); at != std::string::npos; at = text.find("Et", at + 1)) {
    auto end = text.find_first_not_of("EtmL|()*,0123456789", at);
    std::string word = text.substr(at, end == std::string::npos ? end : end - at);
    if (word.find('|') == std::string::npos) continue;
    std::vector<std::int64_t> layers(1, 0);
    for (char c : Expander(word).all()) {
      if (c == '|') layers.push_back(0);
      if (c == 't') ++layers.back();
    }
    if (static_cast<int>(layers.size()) == pieces &&
        std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == num_layers)
      return layers;
  }
  return {};
}

std::vector<std::int64_t> uneven_pieces(int pieces, int num_layers, int mtp_depth) {
  if (pieces <= 1 || num_layers % pieces == 0) return {};
  const int each = (num_layers + 1 + mtp_depth + pieces - 1) / pieces;
  std::vector<std::int64_t> out(pieces, each);
  std::int64_t surplus = std::int64_t{each} * pieces - num_layers;
  for (std::int64_t* end : {&out.back(), &out.front()}) {
    const std::int64_t taken = std::min(surplus, *end - (end == &out.front() ? 1 : 0));
    *end -= taken, surplus -= taken;
  }
  for (int i = pieces - 2; i > 0 && surplus > 0; --i) --out[i], --surplus;
  return out;
}

}  // namespace trireme::search
