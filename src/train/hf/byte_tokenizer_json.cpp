#include "train/hf/tokenizer_json.h"

namespace trireme::train {
namespace {

std::string utf8_of(unsigned code) {  // below 0x800: one byte or two
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

}  // namespace

// `tokenizers` works on characters. Its ByteLevel steps stand a printable character for each byte, as GPT-2's encoder.py
// does: printable ones of Latin-1 for themselves, the others from U+0100 on, in order.
nlohmann::ordered_json byte_tokenizer_json() {
  using nlohmann::ordered_json;
  ordered_json vocabulary = ordered_json::object();
  unsigned next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    vocabulary[utf8_of(itself ? static_cast<unsigned>(byte) : next++)] = byte;
  }
  ordered_json added = ordered_json::array();
  int id = 256;
  for (const char* name : {byte_eos, byte_bos, byte_pad})
    added.push_back(ordered_json{{"id", id++}, {"content", name}, {"single_word", false}, {"lstrip", false}, {"rstrip", false},
                                 {"normalized", false}, {"special", true}});
  // One word, so that nothing is cut or added.
  const ordered_json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", std::move(added)},
          {"normalizer", nullptr},
          {"pre_tokenizer", byte_level},
          {"post_processor", nullptr},
          {"decoder", byte_level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", std::move(vocabulary)},
            {"merges", ordered_json::array()}}}};
}

}  // namespace trireme::train
