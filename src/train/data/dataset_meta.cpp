#include "train/data/dataset_meta.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/json_words.h"
#include "base/regular_file.h"

namespace trireme::train {

std::string meta_text(const DatasetMeta& meta) {
  // Names of files need not be UTF-8.
  return nlohmann::json(meta).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void write_meta(const std::string& prefix, const DatasetMeta& meta) {
  write_file_atomically(prefix + ".meta.json", meta_text(meta));
}

std::optional<DatasetMeta> read_meta(const std::string& prefix) {
  std::ifstream in = open_regular(prefix + ".meta.json");
  if (!in) return std::nullopt;
  try {
    auto meta = nlohmann::json::parse(in).get<DatasetMeta>();
    std::error_code error;
    const auto bin_bytes = std::filesystem::file_size(prefix + ".bin", error);
    if (error || static_cast<std::int64_t>(bin_bytes) != meta.bin_bytes) return std::nullopt;
    return meta;
  } catch (const nlohmann::json::exception& e) {
    throw ConfigError({.file = prefix + ".meta.json", .allowed = fmt::format("not valid: {}", json_words(e))});
  }
}

}  // namespace trireme::train
