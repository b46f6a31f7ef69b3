#include "train/data/json_document.h"

#include <algorithm>
#include <cfloat>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trireme::train {
namespace {

using json = nlohmann::json;

[[noreturn]] void fail(const std::string& why) {
  throw BadDocument(why);
}

// The library's reason without its own prefix and without the text that it read last, which may be as long as the line.
std::string reason_of(const json::parse_error& e) {
  std::string why = e.what();
  if (const auto at = why.find("syntax error"); at != std::string::npos) why = why.substr(at);
  if (const auto at = why.find("; last read"); at != std::string::npos) why = why.substr(0, at);
  return why;
}

json parse(std::string_view text) {
  try {
    return json::parse(text);
  } catch (const json::parse_error& e) {
    const std::size_t byte = e.byte > 0 ? e.byte - 1 : 0;
    for (const std::string_view word : {"-NaN", "-Infinity", "NaN", "Infinity"}) {
      // The scanner stops within the word, at its first or second character.
      for (std::size_t back = 0; back <= 1 && back <= byte; ++back)
        if (text.substr(std::min(byte - back, text.size())).starts_with(word))
          fail(fmt::format("is not JSON at byte {} of the line: {} is no value of JSON", byte - back, word));
    }
    const std::string why = reason_of(e);
    if (text.front() == '[' && byte >= text.size())
      fail(
          "expected a JSON object on each line, and this begins a list that goes on in the next: `jq -c '.[]' FILE > "
          "FILE.jsonl` writes one object a line");
    if (text.front() == '{' && byte >= text.size())
      fail(
          fmt::format("is not JSON: the object has no end in this line ({} bytes). Each line must hold a whole object: "
                      "`jq -c . FILE > FILE.jsonl` writes them so",
                      text.size()));
    fail(fmt::format("is not JSON at byte {} of the line: {}", byte, why));
  } catch (const json::exception& e) {  // a number too large for a double
    std::string why = e.what();
    fail(fmt::format("is not JSON: {}", why.substr(std::min(why.find("] ") + 2, why.size()))));
  }
}

const char* kind_of(const json& value) {
  if (value.is_null()) return "null";
  return value.is_array()     ? "a list"
         : value.is_object()  ? "an object"
         : value.is_string()  ? "a string"
         : value.is_boolean() ? "true or false"
                              : "a number";
}

const json& field(const json& object, const std::string& key, const char* needed) {
  const auto found = object.find(key);
  if (found != object.end()) return *found;
  std::string keys;
  for (const auto& item : object.items()) {
    if (keys.size() > 80) {
      keys += ", ...";
      break;
    }
    keys += fmt::format("{}\"{}\"", keys.empty() ? "" : ", ", item.key());
  }
  fail(fmt::format("has no {} \"{}\"; it has {}", needed, key, keys.empty() ? "no fields" : keys));
}

const std::string& string_field(const json& object, const std::string& key) {
  const json& value = field(object, key, "string");
  if (!value.is_string()) fail(fmt::format("has no string \"{}\": it is {}", key, kind_of(value)));
  return value.get_ref<const std::string&>();
}

float weight_from(const json& value, const std::string& key) {
  const double weight = value.is_number() ? value.get<double>() : -1;
  if (!(weight >= 0 && weight <= FLT_MAX))
    fail(fmt::format("\"{}\": a weight must be a number from 0 to {:.3g}, and this is {}", key, FLT_MAX,
                     value.is_number() ? value.dump() : kind_of(value)));
  return static_cast<float>(weight);
}

WeightedSpans spans_from(const json& list, const std::string& key, std::string_view text) {
  std::vector<std::size_t> begins;  // of characters
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) begins.push_back(i);
  const std::size_t num_characters = begins.size();
  begins.push_back(text.size());
  WeightedSpans out;
  for (const json& item : list) {
    if (!item.is_array() || item.size() != 3 || !item[0].is_number_unsigned() || !item[1].is_number_unsigned())
      fail(fmt::format("\"{}\": expected a list of [begin, end, weight], and an item is {}", key,
                       item.dump().substr(0, 60)));
    const auto begin = item[0].get<std::uint64_t>(), end = item[1].get<std::uint64_t>();
    if (begin > end || end > num_characters)
      fail(fmt::format("\"{}\": [{}, {}) is no part of a text of {} characters", key, begin, end, num_characters));
    const float weight = weight_from(item[2], key);
    if (begin < end) out.push_back({{begins[begin], begins[end]}, weight});
  }
  std::sort(out.begin(), out.end(),
            [](const WeightedSpan& a, const WeightedSpan& b) { return a.bytes.begin < b.bytes.begin; });
  for (std::size_t i = 1; i < out.size(); ++i)
    if (out[i].bytes.begin < out[i - 1].bytes.end) fail(fmt::format("\"{}\": two spans share a character", key));
  if (out.empty()) out.push_back({{0, text.size()}, 0.0f});
  return out;
}

}  // namespace

JsonDocument read_json_document(std::string_view text, const JsonFields& fields) {
  text = text.substr(std::min(text.find_first_not_of(" \t\r"), text.size()));
  const json object = parse(text);
  if (!object.is_object()) fail(fmt::format("expected a JSON object on each line, and this is {}", kind_of(object)));
  JsonDocument out;
  float weight = 1;
  const json* weights = fields.weights.empty() ? nullptr : &field(object, fields.weights, "field");
  const bool is_list = weights && weights->is_array();
  if (weights && !is_list) weight = weight_from(*weights, fields.weights);
  if (!fields.completion.empty()) {
    if (is_list) fail(fmt::format("\"{}\": must be a number beside a prompt and a completion", fields.weights));
    out.text = string_field(object, fields.prompt);
    const std::size_t begin = out.text.size();
    const std::string& completion = string_field(object, fields.completion);
    if (completion.empty()) fail(fmt::format("\"{}\" is empty: nothing could be learned", fields.completion));
    out.text += completion;
    out.weights = {{{begin, out.text.size()}, weight}};
    return out;
  }
  out.text = string_field(object, fields.text);
  if (is_list)
    out.weights = spans_from(*weights, fields.weights, out.text);
  else if (weights)
    out.weights = {{{0, out.text.size()}, weight}};
  return out;
}

}  // namespace trireme::train
