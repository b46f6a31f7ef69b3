#include "train/data/loss_weights.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/regular_file.h"

namespace trireme::train {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

// Read here and not through DatasetMeta: a meta file that is of another .bin says nothing of its weights.
bool meta_says_weights(const std::string& prefix) {
  std::ifstream in = open_regular(prefix + ".meta.json");
  const auto meta = nlohmann::json::parse(in, nullptr, false);
  if (!meta.is_object()) return false;
  const auto weights = meta.find("weights");
  return weights != meta.end() && weights->is_boolean() && weights->get<bool>();
}

}  // namespace

std::shared_ptr<const LossWeights> LossWeights::open(const TokenReader& tokens) {
  const std::string path = tokens.prefix() + ".weights";
  std::error_code error;
  if (std::filesystem::exists(path, error))
    return std::shared_ptr<const LossWeights>(new LossWeights(path, tokens.num_tokens()));
  if (meta_says_weights(tokens.prefix()))
    throw ConfigError(
        {.file = path,
         .allowed = fmt::format("is missing, and {}.meta.json says that the set has loss weights", tokens.prefix())});
  return nullptr;
}

LossWeights::LossWeights(const std::string& path, std::int64_t num_tokens) : num_tokens_(num_tokens) {
  try {
    file_ = DataFile(path);
  } catch (const std::system_error& e) {
    throw ConfigError({.file = path, .allowed = e.what()});
  }
  const auto wanted = static_cast<std::uint64_t>(num_tokens) * sizeof(float);
  if (file_.size() != wanted)
    throw ConfigError({.file = path,
                       .allowed = fmt::format("has {} bytes, and {} tokens take {}: a float32 each",
                                              file_.size(), num_tokens, wanted)});
  DataColumn<float> values(file_, 0, static_cast<std::uint64_t>(num_tokens));
  for (std::int64_t i = 0; i < num_tokens; ++i) {
    const float value = values[static_cast<std::uint64_t>(i)];
    if (!std::isfinite(value) || value < 0)
      throw ConfigError({.file = path,
                         .key = fmt::format("token {}", i),
                         .value = fmt::format("{}", value),
                         .allowed = "must be a finite weight of at least 0"});
  }
}

void LossWeights::read(std::int64_t first, std::span<float> out) const {
  TRIREME_CHECK(first >= 0 && first + static_cast<std::int64_t>(out.size()) <= num_tokens_, "weights {} + {} of {}",
                first, out.size(), num_tokens_);
  file_.read(static_cast<std::uint64_t>(first) * sizeof(float), std::as_writable_bytes(out));
}

}  // namespace trireme::train
