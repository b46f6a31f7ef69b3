#include "train/data/token_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <system_error>

#include "base/errors.h"
#include "train/data/dataset_meta.h"
#include "train/data/prefix_hint.h"

namespace trireme::train {
namespace {

constexpr char magic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', '\0', '\0'};
constexpr std::size_t header_bytes = sizeof(magic) + 8 + 1 + 8 + 8;

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <class F>
void with_token_type(TokenType type, F&& f) {
  switch (type) {
    case TokenType::uint8:
      return f(std::uint8_t{});
    case TokenType::int8:
      return f(std::int8_t{});
    case TokenType::int16:
      return f(std::int16_t{});
    case TokenType::uint16:
      return f(std::uint16_t{});
    case TokenType::int32:
      return f(std::int32_t{});
    case TokenType::int64:
      return f(std::int64_t{});
    default:
      TRIREME_CHECK(false, "token type {}", static_cast<int>(type));
  }
}

template <class T>
void append(std::vector<std::byte>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof(T));
}

}  // namespace

int size_of(TokenType type) {
  switch (type) {
    case TokenType::uint8:
    case TokenType::int8:
      return 1;
    case TokenType::int16:
    case TokenType::uint16:
      return 2;
    case TokenType::int32:
    case TokenType::float32:
      return 4;
    default:
      return 8;
  }
}

TokenType token_type_for(std::int64_t vocab_size) {
  return vocab_size <= 65536 ? TokenType::uint16 : TokenType::int32;
}

TokenReader::TokenReader(const std::string& prefix, DataOrigin origin) : prefix_(prefix), origin_(std::move(origin)) {
  DataFile idx;
  try {
    idx = DataFile(prefix + ".idx");
    bin_ = DataFile(prefix + ".bin");
  } catch (const std::system_error& e) {
    fail(e.what() + prefix_hint(prefix));
  }
  read_index(idx);
}

void TokenReader::fail(std::string why) const {
  throw ConfigError({.file = origin_.file, .key = origin_.key, .value = prefix_, .allowed = std::move(why)});
}

void TokenReader::read_index(const DataFile& idx) {
  const std::string name = prefix_ + ".idx";
  std::array<std::byte, header_bytes> header{};
  if (idx.size() >= header_bytes) idx.read(0, header);
  if (std::memcmp(header.data(), magic, sizeof(magic)) != 0)
    fail(fmt::format("{} is not a Megatron index (no MMIDIDX header)", name));
  const std::byte* at = header.data() + sizeof(magic);
  const auto version = load<std::uint64_t>(at);
  if (version != 1) fail(fmt::format("{} has version {}: only 1 is known", name, version));
  const auto code = load<std::uint8_t>(at + 8);
  const auto is = [&](TokenType type) { return code == static_cast<std::uint8_t>(type); };
  if (code < 1 || code > 8 || is(TokenType::float32) || is(TokenType::float64))
    fail(fmt::format("{} has type code {}: tokens must be integers", name, code));
  type_ = static_cast<TokenType>(code);
  const auto num_sequences = load<std::uint64_t>(at + 9), num_bounds = load<std::uint64_t>(at + 17);
  // Divided rather than multiplied: a corrupt count must not overflow.
  const std::uint64_t room = idx.size() - header_bytes;
  if (num_sequences > room / 12 || num_bounds > (room - 12 * num_sequences) / 8)
    fail(fmt::format("{} is truncated: {} bytes for {} sequences and {} documents", name, idx.size(), num_sequences,
                     num_bounds > 0 ? num_bounds - 1 : 0));

  DataColumn<std::int32_t> lengths(idx, header_bytes, num_sequences);
  DataColumn<std::int64_t> pointers(idx, header_bytes + 4 * num_sequences, num_sequences);
  DataColumn<std::int64_t> bounds(idx, header_bytes + 12 * num_sequences, num_bounds);
  const auto width = static_cast<std::uint64_t>(size_of(type_));
  if (num_bounds == 0 || bounds[0] != 0 || bounds[num_bounds - 1] != static_cast<std::int64_t>(num_sequences))
    fail(fmt::format("{} is corrupt: its documents don't cover its {} sequences", name, num_sequences));

  first_token_.assign(1, 0);
  first_token_.reserve(num_bounds);
  std::uint64_t sequence = 0, token = 0;
  for (std::uint64_t d = 1; d < num_bounds; ++d) {
    const auto end = bounds[d];
    if (end < static_cast<std::int64_t>(sequence) || end > static_cast<std::int64_t>(num_sequences))
      fail(fmt::format("{} is corrupt: document {} ends at sequence {}", name, d - 1, end));
    for (; sequence < static_cast<std::uint64_t>(end); ++sequence) {
      const auto length = lengths[sequence];
      const auto pointer = pointers[sequence];
      if (length < 0 || pointer != static_cast<std::int64_t>(token * width))
        fail(fmt::format("{} is corrupt: sequence {} ({} tokens at byte {}) does not follow the one before", name,
                         sequence, length, pointer));
      token += static_cast<std::uint64_t>(length);
    }
    first_token_.push_back(static_cast<std::int64_t>(token));
  }
  if (bin_.size() < token * width)
    fail(fmt::format("{}.bin is truncated: {} bytes, the index needs {}", prefix_, bin_.size(), token * width));
}

void TokenReader::read(std::int64_t first, std::span<std::int64_t> out) const {
  TRIREME_CHECK(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= num_tokens(), "tokens {} + {} of {}",
                first, out.size(), num_tokens());
  with_token_type(type_, [&](auto zero) {
    using T = decltype(zero);
    std::array<T, 4096> piece;
    for (std::size_t done = 0; done < out.size();) {
      const std::size_t n = std::min(piece.size(), out.size() - done);
      bin_.read((static_cast<std::uint64_t>(first) + done) * sizeof(T), std::as_writable_bytes(std::span(piece).first(n)));
      std::copy_n(piece.begin(), n, out.begin() + static_cast<std::ptrdiff_t>(done));
      done += n;
    }
  });
  if (vocab_size_ == INT64_MAX) return;
  const auto strange = std::find_if(out.begin(), out.end(), [&](std::int64_t t) { return t < 0 || t >= vocab_size_; });
  if (strange != out.end())
    fail(fmt::format("holds token {} at place {}: model.vocab_size is {}, and {}.meta.json names no such token: one of the two files "
                     "was changed or damaged", *strange, first + (strange - out.begin()), vocab_size_, prefix_));
}

void TokenReader::check_vocabulary(std::int64_t vocab_size) const {
  std::int64_t lowest = 0, highest = -1;
  if (const auto meta = read_meta(prefix_); meta && meta->max_token >= 0) {
    highest = meta->max_token;
  } else {
    with_token_type(type_, [&](auto zero) {
      using T = decltype(zero);
      std::vector<T> piece(std::size_t{1} << 18);
      T low{}, high{};
      const auto total = static_cast<std::uint64_t>(num_tokens());
      for (std::uint64_t done = 0; done < total; done += piece.size()) {
        piece.resize(std::min<std::uint64_t>(piece.size(), total - done));
        bin_.read(done * sizeof(T), std::as_writable_bytes(std::span(piece)));
        for (const T token : piece) {
          low = std::min(low, token);
          high = std::max(high, token);
        }
      }
      lowest = static_cast<std::int64_t>(low);
      highest = static_cast<std::int64_t>(high);
    });
  }
  if (highest >= vocab_size)
    fail(fmt::format("holds token {}: model.vocab_size ({}) must be at least {}", highest, vocab_size, highest + 1));
  if (lowest < 0) fail(fmt::format("holds the negative token {}", lowest));
  vocab_size_ = vocab_size;
}

TokenWriter::TokenWriter(const std::string& prefix, TokenType type)
    : prefix_(prefix), type_(type), bin_(prefix + ".bin") {
  TRIREME_CHECK(type != TokenType::float32 && type != TokenType::float64, "tokens are integers");
}

void TokenWriter::add_document(std::span<const std::int32_t> tokens) {
  TRIREME_CHECK(tokens.size() <= INT32_MAX, "document of {} tokens", tokens.size());
  const std::size_t begin = buffer_.size();
  buffer_.resize(begin + tokens.size() * static_cast<std::size_t>(size_of(type_)));
  with_token_type(type_, [&](auto zero) {
    using T = decltype(zero);
    std::byte* at = buffer_.data() + begin;
    for (const std::int32_t token : tokens) {
      const auto narrow = static_cast<T>(token);
      TRIREME_CHECK(static_cast<std::int64_t>(narrow) == token, "token {} in a file of type {}", token,
                    static_cast<int>(type_));
      std::memcpy(at, &narrow, sizeof(T));
      at += sizeof(T);
      max_token_ = std::max<std::int64_t>(max_token_, token);
    }
  });
  lengths_.push_back(static_cast<std::int32_t>(tokens.size()));
  num_tokens_ += static_cast<std::int64_t>(tokens.size());
  if (buffer_.size() >= std::size_t{4} << 20) flush();
}

void TokenWriter::flush() {
  bin_.write(buffer_);
  buffer_.clear();
}

void TokenWriter::prepare() {
  flush();
  bin_.sync();
  std::vector<std::byte> out;
  out.reserve(header_bytes + lengths_.size() * 20 + 8);
  for (const char c : magic) append(out, c);
  append(out, std::uint64_t{1});
  append(out, static_cast<std::uint8_t>(type_));
  append(out, static_cast<std::uint64_t>(lengths_.size()));
  append(out, static_cast<std::uint64_t>(lengths_.size() + 1));
  for (const std::int32_t length : lengths_) append(out, length);
  std::int64_t pointer = 0;
  for (const std::int32_t length : lengths_) {
    append(out, pointer);
    pointer += std::int64_t{length} * size_of(type_);
  }
  for (std::size_t d = 0; d <= lengths_.size(); ++d) append(out, static_cast<std::int64_t>(d));
  idx_ = std::make_unique<AtomicFile>(prefix_ + ".idx");
  idx_->write(out);
  idx_->sync();
}

void TokenWriter::commit() {
  TRIREME_CHECK(idx_ != nullptr, "{} is not prepared", prefix_);
  // The index last: files of which it is new are complete.
  bin_.commit();
  idx_->commit();
}

}  // namespace trireme::train
