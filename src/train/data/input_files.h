// The files that a user names as inputs.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::train {

struct InputFiles {
  std::vector<std::filesystem::path> files;
  std::int64_t bytes = 0;  // of all; 0 where there is a pipe, whose length nobody knows
  bool has_pipe = false;   // can be read once only
};

// Files as they are named; of a folder all files in it and below, in the order of their names, without hidden ones.
// ConfigError where one is absent, a folder holds no file, or the same file comes twice (its documents would be seen
// twice).
InputFiles find_input_files(const std::vector<std::filesystem::path>& named);

// ConfigError (key) where `output` is one of the files, under whatever name.
void check_is_no_input(const InputFiles& inputs, const std::filesystem::path& output, const std::string& key);

}  // namespace trireme::train
