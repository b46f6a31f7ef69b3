#include "train/checkpoint/checkpoint_state.h"

#include <fstream>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/regular_file.h"
#include "train/checkpoint/checksum.h"

namespace trireme::train {
namespace {

constexpr std::int64_t largest_count = std::int64_t{1} << 62;

}  // namespace

std::string state_text(nlohmann::json state) {
  state[checksum_key] = checksum(state);
  return state.dump(1) + "\n";
}

CheckpointState::CheckpointState(const std::filesystem::path& file) : file_(file) {
  std::ifstream in = open_regular(file);
  if (!in) fail("", "no such file, or it cannot be read: not a complete checkpoint");
  json_ = nlohmann::json::parse(in, nullptr, false);
  if (!json_.is_object()) fail("", "not a JSON object");
  if (has_checksum() && json_[checksum_key] != checksum(json_))
    fail(checksum_key, "its content has another checksum: the file was changed or damaged after it was written. Restore it, or "
                       "remove the checkpoint's folder to go on from the one before");
}

bool CheckpointState::has_checksum() const { return json_.contains(checksum_key); }

std::int64_t CheckpointState::count(const std::string& key) const {
  if (!json_.contains(key)) fail(key, "this key is missing");
  const nlohmann::json& value = json_[key];
  // A whole number above int64 is unsigned and would wrap.
  if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<std::uint64_t>() > largest_count) ||
      value.get<std::int64_t>() < 0)
    fail(key, "must be a whole number, at least 0");
  return value.get<std::int64_t>();
}

std::int64_t CheckpointState::count_or(const std::string& key, std::int64_t otherwise) const {
  return json_.contains(key) ? count(key) : otherwise;
}

std::optional<double> CheckpointState::number(const std::string& key) const {
  if (!json_.contains(key) || json_[key].is_null()) return std::nullopt;
  if (!json_[key].is_number()) fail(key, "must be a number");
  return json_[key].get<double>();
}

void CheckpointState::fail(const std::string& key, const std::string& what) const {
  const std::string value = key.empty() || key == checksum_key || !json_.contains(key) ? "" : json_[key].dump();
  throw ConfigError({.file = file_.string(), .key = key, .value = value, .allowed = what});
}

}  // namespace trireme::train
