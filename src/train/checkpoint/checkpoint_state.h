// state.json of a checkpoint: step, seed, tokens seen, optimizer steps, the evaluation loss where that step was evaluated, and
// a checksum of it all. A checkpoint that was written before there was a checksum is read without one.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace trireme::train {

inline constexpr const char* eval_loss_key = "eval_loss";

// `state` and its checksum, as the file has it.
std::string state_text(nlohmann::json state);

class CheckpointState {
 public:
  // ConfigError with the file: missing, not a JSON object, or not what its checksum says.
  explicit CheckpointState(const std::filesystem::path& file);

  bool has_checksum() const;
  const nlohmann::json& json() const { return json_; }

  // Typed values; ConfigError with file, key and value for another type. A count is a whole number from 0 to 2^62.
  std::int64_t count(const std::string& key) const;  // and where it is missing
  std::int64_t count_or(const std::string& key, std::int64_t otherwise) const;
  std::optional<double> number(const std::string& key) const;  // none where it is missing or null

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& what) const;

  std::filesystem::path file_;
  nlohmann::json json_;
};

}  // namespace trireme::train
