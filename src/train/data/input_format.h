// What a file is, by its first bytes: text in an encoding that is read, text compressed in a form that is unpacked, or
// something else, which is refused by name.
#pragma once
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace trireme::train {

enum class Compression { none, gzip, zstd, bzip2, xz };
enum class TextEncoding { utf8, utf16_le, utf16_be };

struct InputFormat {
  Compression compression = Compression::none;
  TextEncoding encoding = TextEncoding::utf8;
  std::size_t mark_bytes = 0;  // of the byte order mark, which is no part of the text
  std::string refusal;         // where it can't be read: "is a zip archive: unpack it and name the texts in it"
};

inline constexpr std::size_t format_head_bytes = 512;

// `head`: the first format_head_bytes, or all of a shorter file. `file` tells apart what bytes alone can't.
InputFormat detect_format(std::string_view head, const std::filesystem::path& file);

// Whether a name ends as files of JSON lines do: .jsonl, .ndjson, .json, each perhaps compressed (.jsonl.gz).
bool is_named_json_lines(const std::filesystem::path& file);

}  // namespace trireme::train
