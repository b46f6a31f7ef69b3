// Text files as a stream of documents, without loading a file whole (except where a document is a file).
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/data/json_document.h"
#include "train/data/weighted_spans.h"

namespace trireme::train {

enum class DocumentRule {
  blank_line,  // one or more lines without a visible character separate documents
  line,        // each line is a document
  file,        // each file is a document
  separator,   // a line that matches a regular expression begins a document
  jsonl,       // each line is a JSON object; the document is what JsonFields says of it
};
DocumentRule document_rule_from_name(const std::string& name);  // ConfigError (--documents)

struct DocumentOptions {
  std::optional<DocumentRule> rule;  // unset: jsonl where the file's name says so, else blank_line
  std::string separator;             // of `separator`: ECMAScript, searched in the line's first 1,024 bytes
  bool drop_separator = false;       // the matching line is not part of the document
  JsonFields json;
  bool skip_bad = false;                             // a bad document is left out and counted, not an error
  std::size_t longest_bytes = std::size_t{1} << 30;  // of a document: a longer one is bad
};

struct Document {
  std::string_view text;  // UTF-8 without zero bytes
  WeightedSpans weights;
  operator std::string_view() const { return text; }
};

// What was left out.
struct SkippedDocuments {
  std::int64_t count = 0;
  std::vector<std::string> first;  // why, of the first few: "a.txt:12: byte 345 ..."
  void add(std::string why);
};

// Calls `take` with each document that has a visible character, in order; `progress` with bytes of the file read so
// far, about once a megabyte. Documents keep their line ends except the last; a line of `line` and `jsonl` has no
// carriage return at its end.
//
// A document is bad that is not UTF-8, holds a zero byte, is too long or, of `jsonl`, is not as JsonFields says; a file
// that is no text counts as one. ConfigError with file, line and byte, unless skip_bad says to add it to `skipped`.
void for_each_document(const std::filesystem::path& file, const DocumentOptions& options,
                       const std::function<void(const Document&)>& take,
                       const std::function<void(std::int64_t)>& progress = {}, SkippedDocuments* skipped = nullptr);

}  // namespace trireme::train
