#include "plan/frozen_parameters.h"

#include <fnmatch.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/edit_distance.h"
#include "model/parameters.h"

namespace trireme::plan {
namespace {

bool matches(const std::string& pattern, const std::string& name) { return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0; }

// "layers.3.router.weight" -> {"layers", "*", "router", "weight"}: layers and experts differ only in their numbers.
std::vector<std::string> words_of(const std::string& name) {
  std::vector<std::string> out(1);
  for (const char c : name) {
    if (c == '.') out.emplace_back();
    else out.back() += c;
  }
  for (std::string& word : out)
    if (!word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) word = "*";
  return out;
}

// How far the written words of a pattern are from those of a name, each to its nearest.
std::size_t distance(const std::string& pattern, const std::vector<std::string>& name) {
  std::size_t sum = 0;
  for (std::string word : words_of(pattern)) {
    std::erase(word, '*');
    if (word.empty()) continue;
    std::size_t least = word.size();
    for (const std::string& other : name) least = std::min(least, edit_distance(word, other));
    sum += least;
  }
  return sum;
}

std::vector<std::string> names_of(const model::ModelSpec& model) {
  std::vector<std::string> out;
  for (const model::ParameterSpec& p : model::parameters(model)) out.push_back(p.name);
  if (model.moe.router.selection_bias)
    for (int layer = 0; layer < model.num_layers; ++layer)
      if (model.is_moe(layer)) out.push_back(selection_bias_name(layer));
  return out;
}

std::string near_names(const std::string& pattern, const std::vector<std::string>& names) {
  std::set<std::string> kinds;
  for (const std::string& name : names) kinds.insert(fmt::format("{}", fmt::join(words_of(name), ".")));
  std::vector<std::string> nearest(kinds.begin(), kinds.end());
  std::stable_sort(nearest.begin(), nearest.end(), [&](const std::string& a, const std::string& b) {
    return distance(pattern, words_of(a)) < distance(pattern, words_of(b));
  });
  nearest.resize(std::min<std::size_t>(nearest.size(), 3));
  return fmt::format("{}", fmt::join(nearest, ", "));
}

}  // namespace

bool FrozenParameters::has(const std::string& name) const {
  return std::any_of(patterns_.begin(), patterns_.end(), [&](const std::string& p) { return matches(p, name); });
}

std::int64_t FrozenParameters::count_without(const FrozenParameters& others, const model::ModelSpec& model) const {
  if (empty()) return 0;
  const std::vector<std::string> names = names_of(model);
  return std::count_if(names.begin(), names.end(), [&](const std::string& name) { return has(name) && !others.has(name); });
}

std::string FrozenParameters::problem(const model::ModelSpec& model) const {
  if (empty()) return {};
  const std::vector<std::string> names = names_of(model);
  for (const std::string& pattern : patterns_)
    if (std::none_of(names.begin(), names.end(), [&](const std::string& name) { return matches(pattern, name); }))
      return fmt::format("\"{}\" is the name of no parameter of the model; near it are {}", pattern, near_names(pattern, names));
  if (std::all_of(names.begin(), names.end(), [&](const std::string& name) { return has(name); }))
    return "nothing would be left to train";
  return {};
}

std::string selection_bias_name(int layer) { return fmt::format("layers.{}.router.selection_bias", layer); }

}  // namespace trireme::plan
