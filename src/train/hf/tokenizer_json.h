// tokenizer.json, the format of Hugging Face's `tokenizers`, of the tokenizers that Trireme has itself.
#pragma once
#include <string>

#include <nlohmann/json.hpp>

#include "train/hf/sentencepiece_file.h"

namespace trireme::train {

// The names that the byte tokenizer's three special tokens have there: the text of one in a prompt is read as the token.
inline constexpr const char *byte_eos = "<|eos|>", *byte_bos = "<|bos|>", *byte_pad = "<|pad|>";

// Ids 0..255 are the bytes, 256 eos, 257 bos, 258 pad.
nlohmann::ordered_json byte_tokenizer_json();

// BPE and unigram models, with the same ids for the same text; merges of BPE follow from the pieces' order. Three things
// differ: the text of a control piece ("</s>") is read as that piece, normalisation rules (charsmap) are applied by
// `tokenizers`' own reader of them, and of two unigram cuts of equal score either may win (it adds in double precision). Empty, with the reason, for what the format can't say: whitespace behind words, word and
// character models, unused pieces, a denormalizer.
struct SentencePieceJson {
  nlohmann::ordered_json json;
  std::string why_not;  // empty: json is there
};
SentencePieceJson sentencepiece_tokenizer_json(const SentencePieceFile& model);

}  // namespace trireme::train
