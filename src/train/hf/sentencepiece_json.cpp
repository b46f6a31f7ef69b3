#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "train/hf/tokenizer_json.h"

namespace trireme::train {
namespace {

using nlohmann::ordered_json;
using PieceKind = SentencePieceFile::PieceKind;
using ModelKind = SentencePieceFile::ModelKind;

constexpr const char* meta_space = "\u2581";

std::string base64(const std::string& bytes) {
  constexpr const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t j = 0; j < 3; ++j) group = group << 8 | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (std::size_t j = 0; j < 4; ++j) out += j <= count ? digits[group >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

std::string why_not(const SentencePieceFile& model) {
  if (model.model != ModelKind::bpe && model.model != ModelKind::unigram) return "it is a word or character model";
  if (model.whitespace_as_suffix) return "it puts white space behind words";
  if (!model.escape_whitespaces) return "it does not escape white space";
  if (model.has_denormalizer) return "it has rules that change text on the way back";
  for (const auto& piece : model.pieces)
    if (piece.kind == PieceKind::unused) return "it has unused pieces";
  return {};
}

ordered_json replace(ordered_json pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", std::move(pattern)}, {"content", content}};
}

// The steps of SentencePiece's normalizer, in its order. "\A" and "\z": of the text, not of a line.
ordered_json normalizer(const SentencePieceFile& model) {
  ordered_json steps = ordered_json::array();
  if (!model.charsmap.empty()) steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", base64(model.charsmap)}});
  if (model.remove_extra_whitespaces) {
    for (const char* regex : {"\\A +", " +\\z"}) steps.push_back(replace({{"Regex", regex}}, ""));
    steps.push_back(replace({{"Regex", " {2,}"}}, " "));
  }
  if (model.add_dummy_prefix) steps.push_back({{"type", "Prepend"}, {"prepend", meta_space}});
  steps.push_back(replace({{"String", " "}}, meta_space));
  return {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

ordered_json decoder(const SentencePieceFile& model) {
  ordered_json steps = {replace({{"String", meta_space}}, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (model.add_dummy_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

// Control pieces, and pieces of the user's, which text is cut at before anything else.
ordered_json added_tokens(const SentencePieceFile& model) {
  ordered_json out = ordered_json::array();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& piece = model.pieces[id];
    const bool special = piece.kind == PieceKind::control || piece.kind == PieceKind::unknown;
    if (!special && piece.kind != PieceKind::user_defined) continue;
    std::string content = piece.text;
    for (std::size_t at = 0; !special && (at = content.find(meta_space, at)) != std::string::npos;) content.replace(at, 3, " ");
    out.push_back(ordered_json{{"id", id}, {"content", content}, {"single_word", false}, {"lstrip", false}, {"rstrip", false},
                               {"normalized", false}, {"special", special}});
  }
  return out;
}

// SentencePiece joins two symbols where their text is a piece, best score first. `tokenizers` wants the pairs: each way to
// cut a piece into two, in the order of the scores.
ordered_json merges(const SentencePieceFile& model) {
  std::unordered_map<std::string_view, std::size_t> id_of;
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    if (model.pieces[id].kind == PieceKind::normal) id_of.emplace(model.pieces[id].text, id);
  std::vector<std::size_t> order;
  for (const auto& [text, id] : id_of) order.push_back(id);
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    return std::pair(-model.pieces[a].score, a) < std::pair(-model.pieces[b].score, b);
  });
  ordered_json out = ordered_json::array();
  for (const std::size_t id : order) {
    const std::string_view text = model.pieces[id].text;
    std::vector<std::tuple<std::size_t, std::size_t, std::size_t>> cuts;  // ids, and where
    for (std::size_t at = 1; at < text.size(); ++at) {
      const auto left = id_of.find(text.substr(0, at)), right = id_of.find(text.substr(at));
      if (left != id_of.end() && right != id_of.end()) cuts.emplace_back(left->second, right->second, at);
    }
    std::ranges::sort(cuts);
    for (const auto& [left, right, at] : cuts) out.push_back({text.substr(0, at), text.substr(at)});
  }
  return out;
}

ordered_json bpe(const SentencePieceFile& model) {
  ordered_json::object_t vocabulary;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) vocabulary.emplace_back(model.pieces[id].text, id);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", model.unk_piece},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", model.byte_fallback},
          {"ignore_merges", false},
          {"vocab", std::move(vocabulary)},
          {"merges", merges(model)}};
}

ordered_json unigram(const SentencePieceFile& model) {
  ordered_json vocabulary = ordered_json::array();
  for (const auto& piece : model.pieces) vocabulary.push_back(ordered_json::array({piece.text, piece.score}));
  return {{"type", "Unigram"},
          {"unk_id", model.id_of(model.unk_piece)},
          {"byte_fallback", model.byte_fallback},
          {"vocab", std::move(vocabulary)}};
}

}  // namespace

SentencePieceJson sentencepiece_tokenizer_json(const SentencePieceFile& model) {
  if (const std::string reason = why_not(model); !reason.empty()) return {.why_not = reason};
  return {.json = {{"version", "1.0"},
                   {"truncation", nullptr},
                   {"padding", nullptr},
                   {"added_tokens", added_tokens(model)},
                   {"normalizer", normalizer(model)},
                   {"pre_tokenizer", nullptr},
                   {"post_processor", nullptr},
                   {"decoder", decoder(model)},
                   {"model", model.model == ModelKind::bpe ? bpe(model) : unigram(model)}}};
}

}  // namespace trireme::train
