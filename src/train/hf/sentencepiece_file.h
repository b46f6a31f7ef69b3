// What a SentencePiece .model file says, read from its protocol buffer (google/sentencepiece, sentencepiece_model.proto), so
// that it can be written as another kind of file. Encoding text is the library's (data/tokenizer.h).
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::train {

struct SentencePieceFile {
  enum class PieceKind { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  enum class ModelKind { unigram = 1, bpe = 2, word = 3, character = 4 };
  struct Piece {
    std::string text;
    float score = 0;
    PieceKind kind = PieceKind::normal;
  };

  std::vector<Piece> pieces;  // by id
  ModelKind model = ModelKind::unigram;
  bool byte_fallback = false, whitespace_as_suffix = false;
  std::string unk_piece = "<unk>", bos_piece = "<s>", eos_piece = "</s>", pad_piece = "<pad>";
  std::string charsmap;  // compiled normalisation rules; empty: text stays as it is
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  bool has_denormalizer = false;

  std::int32_t id_of(const std::string& piece) const;  // -1: none
};

// ConfigError with the file for anything that is no such model.
SentencePieceFile read_sentencepiece_file(const std::filesystem::path& path);

}  // namespace trireme::train
