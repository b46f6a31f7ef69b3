#include "train/data/input_files.h"

#include <algorithm>

#include "base/errors.h"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, std::string why) {
  throw ConfigError({.file = file.string(), .allowed = std::move(why)});
}

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (is_hidden(at->path())) {
      if (at->is_directory()) at.disable_recursion_pending();
    } else if (at->is_regular_file()) {
      out.push_back(at->path());
    }
  }
  if (error) fail(folder, fmt::format("cannot be read: {}", error.message()));
  if (out.empty()) fail(folder, "is a folder that holds no file");
  std::sort(out.begin(), out.end());
  return out;
}

// What a path leads to, so that two names of one file are seen.
fs::path real_path(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(path, error);
  return error ? fs::absolute(path).lexically_normal() : real;
}

}  // namespace

InputFiles find_input_files(const std::vector<fs::path>& named) {
  if (named.empty()) throw ConfigError({.key = "inputs", .allowed = "at least one text file is needed"});
  InputFiles out;
  for (const fs::path& path : named) {
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (!fs::exists(status)) fail(path, "no such file, or it cannot be read");
    if (fs::is_directory(status)) {
      const auto found = files_below(path);
      out.files.insert(out.files.end(), found.begin(), found.end());
    } else {
      out.files.push_back(path);
    }
  }
  std::vector<std::pair<fs::path, fs::path>> real;  // and as it was named
  for (const fs::path& file : out.files) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) {
      out.has_pipe = true;
      continue;
    }
    const auto size = fs::file_size(file, error);
    if (error) fail(file, fmt::format("cannot be read: {}", error.message()));
    out.bytes += static_cast<std::int64_t>(size);
    real.emplace_back(real_path(file), file);
  }
  if (out.has_pipe) out.bytes = 0;
  std::sort(real.begin(), real.end());
  for (std::size_t i = 1; i < real.size(); ++i)
    if (real[i].first == real[i - 1].first)
      fail(real[i].second, "is named twice as an input: each of its documents would be there twice");
  return out;
}

void check_is_no_input(const InputFiles& inputs, const fs::path& output, const std::string& key) {
  const fs::path real = real_path(output);
  for (const fs::path& file : inputs.files)
    if (real_path(file) == real)
      throw ConfigError(
          {.key = key, .value = output.string(), .allowed = "is one of the inputs, which would be written over"});
}

}  // namespace trireme::train
