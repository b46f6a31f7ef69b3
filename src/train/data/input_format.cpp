#include "train/data/input_format.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>

#include "base/letter_case.h"

namespace trireme::train {
namespace {

using namespace std::string_view_literals;
namespace fs = std::filesystem;

struct Known {
  std::string_view magic;
  std::size_t offset;
  std::string_view is;  // "a zip archive: unpack it"
};

constexpr Known not_text[] = {
    {"PK\3\4"sv, 0, "is a zip archive (office documents and .npz files are too): unpack it and name the texts in it"sv},
    {"PK\5\6"sv, 0, "is an empty zip archive"sv},
    {"ustar"sv, 257, "is a tar archive: unpack it and name the texts in it"sv},
    {"7z\xBC\xAF\x27\x1C"sv, 0, "is a 7-Zip archive: unpack it and name the texts in it"sv},
    {"Rar!\x1A\x07"sv, 0, "is a RAR archive: unpack it and name the texts in it"sv},
    {"\x04\x22\x4D\x18"sv, 0, "is compressed by lz4, which is not read: unpack it, or use gzip or zstd"sv},
    {"\x1F\x9D"sv, 0, "is compressed by compress (.Z), which is not read: unpack it, or use gzip or zstd"sv},
    {"%PDF-"sv, 0, "is a PDF: `pdftotext FILE.pdf` (Debian: poppler-utils) writes its text"sv},
    {"{\\rtf"sv, 0, "is a Rich Text document: save it as plain text"sv},
    {"\x7F"
     "ELF"sv,
     0, "is a program (ELF)"sv},
    {"\x89PNG"sv, 0, "is an image (PNG)"sv},
    {"\xFF\xD8\xFF"sv, 0, "is an image (JPEG)"sv},
    {"GIF8"sv, 0, "is an image (GIF)"sv},
    {"\0\0\xFE\xFF"sv, 0, "is UTF-32, which is not read: `iconv -f UTF-32 -t UTF-8 FILE > FILE.txt` turns it"sv},
    {"\xFF\xFE\0\0"sv, 0, "is UTF-32, which is not read: `iconv -f UTF-32 -t UTF-8 FILE > FILE.txt` turns it"sv},
    {"PAR1"sv, 0,
     "is a Parquet table, which is not read: python3 -c \"import pandas; pandas.read_parquet('FILE.parquet')"
     ".to_json('FILE.jsonl', orient='records', lines=True, force_ascii=False)\" turns it into JSON lines"sv},
    {"ARROW1"sv, 0,
     "is an Arrow table, which is not read: in Python, datasets.Dataset.from_file('FILE').to_json('FILE.jsonl') turns "
     "it into JSON lines"sv},
    {"Obj\1"sv, 0, "is an Avro file, which is not read: turn it into JSON lines"sv},
    {"SQLite format 3\0"sv, 0, "is an SQLite database, which is not read: turn its texts into JSON lines"sv},
    {"\x89HDF"sv, 0, "is an HDF5 file, which is not read: turn its texts into JSON lines"sv},
    {"\x93NUMPY"sv, 0, "is an array of NumPy: no text"sv},
    {"GGUF"sv, 0, "holds a model's weights (GGUF): no text"sv},
    {"MMIDIDX\0\0"sv, 0, "is the index of a token file: it is tokenized already, name its prefix in RUN.toml"sv},
};

bool has(std::string_view head, std::string_view magic, std::size_t offset = 0) {
  return head.size() >= offset + magic.size() && head.substr(offset, magic.size()) == magic;
}

bool is_safetensors(std::string_view head) {
  std::uint64_t length = 0;
  if (head.size() < 10) return false;
  std::memcpy(&length, head.data(), 8);
  return length >= 2 && length < (std::uint64_t{1} << 30) && head.substr(8, 2) == "{\"";
}

// A sign of UTF-16 without a mark: in text with Latin letters every other byte is 0.
std::string of_a_zero_byte(std::string_view head) {
  std::size_t zeros[2] = {0, 0};
  for (std::size_t i = 0; i < head.size(); ++i) zeros[i % 2] += head[i] == '\0';
  const std::size_t half = head.size() / 2;
  for (const int side : {0, 1})
    if (half >= 4 && zeros[side] * 2 >= half && zeros[1 - side] == 0)
      return fmt::format(
          "seems to be UTF-16 without a byte order mark: `iconv -f UTF-16{} -t UTF-8 FILE > FILE.txt` turns it",
          side == 0 ? "BE" : "LE");
  return fmt::format("is not text: byte {} is 0", head.find('\0'));
}

}  // namespace

InputFormat detect_format(std::string_view head, const fs::path& file) {
  head = head.substr(0, format_head_bytes);
  for (const Known& known : not_text)
    if (has(head, known.magic, known.offset)) return {.refusal = std::string(known.is)};
  if (has(head, "\x1F\x8B")) return {.compression = Compression::gzip};
  if (has(head, "\x28\xB5\x2F\xFD")) return {.compression = Compression::zstd};
  if (head.size() >= 4 && (static_cast<unsigned char>(head[0]) & 0xF0) == 0x50 && has(head, "\x2A\x4D\x18", 1))
    return {.compression = Compression::zstd};  // a frame to be skipped, which pzstd begins with
  if (has(head, "BZh") && has(head, "1AY&SY", 4)) return {.compression = Compression::bzip2};
  if (has(head,
          "\xFD"
          "7zXZ\0"sv))
    return {.compression = Compression::xz};
  if (has(head, "\xEF\xBB\xBF")) return {.mark_bytes = 3};
  if (has(head, "\xFF\xFE")) return {.encoding = TextEncoding::utf16_le, .mark_bytes = 2};
  if (has(head, "\xFE\xFF")) return {.encoding = TextEncoding::utf16_be, .mark_bytes = 2};
  if (is_safetensors(head)) return {.refusal = "holds tensors (safetensors): no text"};
  if (file.extension() == ".bin") {
    fs::path index = file;
    std::error_code ignored;
    if (fs::exists(index.replace_extension(".idx"), ignored))
      return {.refusal =
                  "is a token file (its .idx lies beside it): it is tokenized already, name its prefix in RUN.toml"};
  }
  if (head.find('\0') != std::string_view::npos) return {.refusal = of_a_zero_byte(head)};
  return {};
}

bool is_named_json_lines(const fs::path& file) {
  fs::path name = file.filename();
  std::string ending = lower_case(name.extension().string());
  if (ending == ".gz" || ending == ".zst" || ending == ".bz2" || ending == ".xz") {
    name = name.stem();
    ending = lower_case(name.extension().string());
  }
  return ending == ".jsonl" || ending == ".ndjson" || ending == ".json";
}

}  // namespace trireme::train
