// The tables of a run file, one source each: read from TOML, checked in themselves, and written. [model] is model/'s,
// [layout] plan/layout_keys.h's, [published] plan/published_spec.h's.
#pragma once
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "plan/run_spec.h"

namespace trireme::plan {

// Paths in a file are relative to its folder; those of the command line to the current one. Empty stays empty.
std::filesystem::path resolved_path(const ConfigTable& table, const char* key, const std::filesystem::path& folder,
                                    const std::string& path);

BatchSpec read_batch(ConfigTable table);
TrainSpec read_train(ConfigTable table);
DataSpec read_data(ConfigTable table, const std::filesystem::path& folder);
CheckpointSpec read_checkpoint(ConfigTable table, const std::filesystem::path& folder);
DeviceSpec read_device(ConfigTable table);

std::string to_toml(const BatchSpec& batch);
std::string to_toml(const TrainSpec& train);
std::string to_toml(const DataSpec& data);
std::string to_toml(const CheckpointSpec& checkpoint);
std::string to_toml(const DeviceSpec& device);

// TOML of a table, key by key. Strings are quoted.
class TomlText {
 public:
  explicit TomlText(const char* table) : text_(fmt::format("\n[{}]\n", table)) {}
  template <class T>
  TomlText& line(const char* key, const T& value) {
    text_ += fmt::format("{} = {}\n", key, value);
    return *this;
  }
  TomlText& line(const char* key, const std::string& value);
  TomlText& line(const char* key, const std::vector<std::string>& values);
  // What is TOML already.
  TomlText& raw(const char* key, const std::string& toml);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace trireme::plan
