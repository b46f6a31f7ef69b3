// Text files as a stream of documents, without loading a file whole (except where a document is a file).
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace trireme::train {

enum class DocumentRule {
  blank_line,  // one or more lines without a visible character separate documents
  line,        // each line is a document
  file,        // each file is a document
  separator,   // a line that matches a regular expression begins a document
  jsonl,       // each line is a JSON object; the document is one of its fields
};
DocumentRule document_rule_from_name(const std::string& name);  // ConfigError (--documents)

struct DocumentOptions {
  DocumentRule rule = DocumentRule::blank_line;
  std::string separator;        // of `separator`: ECMAScript, searched in the line's first 1,024 bytes
  bool drop_separator = false;  // the matching line is not part of the document
  std::string json_key = "text";
};

// Calls `take` with each document that has a visible character, in order; `progress` with bytes read so far, about once
// a megabyte. Documents keep their line ends except the last. ConfigError naming file and line for bad JSON.
void for_each_document(const std::filesystem::path& file, const DocumentOptions& options,
                       const std::function<void(std::string_view)>& take,
                       const std::function<void(std::int64_t)>& progress = {});

}  // namespace trireme::train
