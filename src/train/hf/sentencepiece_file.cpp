#include "train/hf/sentencepiece_file.h"

#include <cstring>
#include <optional>
#include <string_view>

#include "base/errors.h"
#include "base/read_file.h"
#include "base/utf8.h"

namespace trireme::train {
namespace {

// One field of a message: a number (varint, fixed32 or fixed64) or bytes.
struct Field {
  std::uint64_t number = 0, value = 0;
  std::string_view bytes;
};

// Walks the fields of a message.
class Message {
 public:
  Message(std::string_view bytes, const std::filesystem::path& path) : rest_(bytes), path_(path) {}

  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const std::uint64_t key = varint();
    Field field{.number = key >> 3};
    switch (key & 7) {
      case 0: field.value = varint(); break;
      case 1: field.value = fixed<std::uint64_t>(); break;
      case 2: field.bytes = take(varint()); break;
      case 5: field.value = fixed<std::uint32_t>(); break;
      default: fail();
    }
    return field;
  }

 private:
  [[noreturn]] void fail() const { throw ConfigError({.file = path_.string(), .allowed = "not a SentencePiece model"}); }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail();
  }
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) fail();
    const std::string_view out = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return out;
  }
  template <class T>
  T fixed() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string_view rest_;
  const std::filesystem::path& path_;
};

SentencePieceFile::Piece read_piece(Message message) {
  SentencePieceFile::Piece piece;
  while (const auto field = message.next()) {
    if (field->number == 1) piece.text = field->bytes;
    if (field->number == 2) {
      const auto bits = static_cast<std::uint32_t>(field->value);
      std::memcpy(&piece.score, &bits, sizeof(bits));
    }
    if (field->number == 3) piece.kind = static_cast<SentencePieceFile::PieceKind>(field->value);
  }
  return piece;
}

void read_trainer(Message message, SentencePieceFile& out) {
  while (const auto field = message.next()) {
    switch (field->number) {
      case 3: out.model = static_cast<SentencePieceFile::ModelKind>(field->value); break;
      case 24: out.whitespace_as_suffix = field->value != 0; break;
      case 35: out.byte_fallback = field->value != 0; break;
      case 45: out.unk_piece = field->bytes; break;
      case 46: out.bos_piece = field->bytes; break;
      case 47: out.eos_piece = field->bytes; break;
      case 48: out.pad_piece = field->bytes; break;
      default: break;
    }
  }
}

void read_normalizer(Message message, SentencePieceFile& out) {
  while (const auto field = message.next()) {
    switch (field->number) {
      case 2: out.charsmap = field->bytes; break;
      case 3: out.add_dummy_prefix = field->value != 0; break;
      case 4: out.remove_extra_whitespaces = field->value != 0; break;
      case 5: out.escape_whitespaces = field->value != 0; break;
      default: break;
    }
  }
}

}  // namespace

std::int32_t SentencePieceFile::id_of(const std::string& piece) const {
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].text == piece) return static_cast<std::int32_t>(i);
  return -1;
}

SentencePieceFile read_sentencepiece_file(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  SentencePieceFile out;
  Message message(text, path);
  while (const auto field = message.next()) {
    const Message inner(field->bytes, path);
    if (field->number == 1) out.pieces.push_back(read_piece(inner));
    if (field->number == 2) read_trainer(inner, out);
    if (field->number == 3) read_normalizer(inner, out);
    if (field->number == 5) {
      SentencePieceFile denormalizer;
      read_normalizer(inner, denormalizer);
      out.has_denormalizer = !denormalizer.charsmap.empty();
    }
  }
  if (out.pieces.empty()) throw ConfigError({.file = path.string(), .allowed = "not a SentencePiece model: it has no pieces"});
  // They go into JSON.
  const auto check = [&](const std::string& piece) {
    if (first_not_utf8(piece) < piece.size())
      throw ConfigError({.file = path.string(), .allowed = "not a SentencePiece model: it has a piece that is not UTF-8"});
  };
  for (const auto& piece : out.pieces) check(piece.text);
  for (const std::string& piece : {out.unk_piece, out.bos_piece, out.eos_piece, out.pad_piece}) check(piece);
  return out;
}

}  // namespace trireme::train
