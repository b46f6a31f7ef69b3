// What the JSON library says of an error, without its own name for it ("[json.exception.out_of_range.403] key 'id' not found").
#pragma once
#include <string>

#include <nlohmann/json.hpp>

namespace trireme {

inline std::string json_words(const nlohmann::json::exception& error) {
  const std::string text = error.what();
  const std::size_t end = text.find("] ");
  return end == std::string::npos ? text : text.substr(end + 2);
}

}  // namespace trireme
