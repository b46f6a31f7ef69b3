// A document from one JSON object: its text, and how much its parts count.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

#include "train/data/weighted_spans.h"

namespace trireme::train {

struct JsonFields {
  std::string text = "text";
  std::string prompt, completion;  // both or none: the text is one behind the other, and only the completion counts
  // A number: the weight of all that counts. Or, without a prompt, a list of [begin, end, weight] in characters of the
  // text: the rest weighs 0.
  std::string weights;
  bool give_weights() const { return !weights.empty() || !completion.empty(); }
};

struct JsonDocument {
  std::string text;
  WeightedSpans weights;
};

// A document that can't be used, and why: `trireme data` adds the file and the line.
class BadDocument : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// `object`: UTF-8. BadDocument where it is no JSON object (with the byte and the reason) or a field is missing or of
// another type.
JsonDocument read_json_document(std::string_view object, const JsonFields& fields);

}  // namespace trireme::train
