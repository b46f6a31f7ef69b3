#include "train/data/text_stream.h"

namespace trireme::train {
namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;

}  // namespace

TextStream::TextStream(const std::filesystem::path& file) : file_(file) {
  const auto refuse = [&](std::string why) { throw NotText({.file = file.string(), .allowed = std::move(why)}); };
  head_ = read_head();
  format_ = detect_format(head_, file);
  if (format_.refusal.empty() && format_.compression != Compression::none) {
    const Compression form = format_.compression;
    try {
      unpacked_ = decompressed(form, std::move(head_), file_, file);
      head_ = read_head();
    } catch (const ConfigError& e) {
      throw NotText(e.detail());
    }
    // `file` tells a .bin apart, which a packed file is not.
    format_ = detect_format(head_, {});
    if (!format_.refusal.empty())
      refuse(fmt::format("is compressed by {}, and what is in it {}", name_of(form), format_.refusal));
    if (format_.compression != Compression::none)
      refuse(fmt::format("is compressed twice, by {} and {}: unpack it once", name_of(format_.compression),
                         name_of(form)));
  }
  if (!format_.refusal.empty()) refuse(format_.refusal);
  if (format_.encoding != TextEncoding::utf8) utf16_.emplace(format_.encoding == TextEncoding::utf16_be);
  head_.erase(0, format_.mark_bytes);
}

std::string TextStream::read_head() {
  std::string head(format_head_bytes, '\0');
  std::size_t n = 0;
  while (n < head.size()) {
    try {
      const std::size_t got = source().read(head.data() + n, head.size() - n);
      if (got == 0) break;
      n += got;
    } catch (const ConfigError& e) {
      if (n == 0) throw;
      failed_.emplace(e.detail());  // behind a good beginning
      break;
    }
  }
  head.resize(n);
  return head;
}

std::string_view TextStream::next_block() {
  while (!ended_) {
    if (!head_.empty()) {
      block_ = std::move(head_);
      head_.clear();
    } else if (failed_) {
      throw *failed_;
    } else {
      block_.resize(block_bytes);
      try {
        block_.resize(source().read(block_.data(), block_bytes));
      } catch (const ConfigError& e) {
        throw NotText(e.detail());
      }
      ended_ = block_.empty();
    }
    if (!utf16_) return block_;
    decoded_.clear();
    if (ended_)
      utf16_->finish(decoded_);
    else
      utf16_->decode(block_, decoded_);
    if (!decoded_.empty()) return decoded_;
  }
  return {};
}

}  // namespace trireme::train
