#include "trireme/named_outputs.h"

#include <fstream>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/regular_file.h"
#include "plan/run_folder.h"
#include "plan/run_spec.h"

namespace trireme::apps {

namespace fs = std::filesystem;

namespace {

std::function<bool(const fs::path&)> begins_with(const std::string& beginning) {
  return [beginning](const fs::path& path) {
    std::ifstream in = open_regular(path);
    std::string found(beginning.size(), '\0');
    in.read(found.data(), static_cast<std::streamsize>(found.size()));
    return found == beginning;
  };
}

bool is_run_file(const fs::path& path) {
  try {
    plan::load_run(path);
    return true;
  } catch (const ConfigError&) {
    return false;
  }
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code failed;
  if (fs::equivalent(a, b, failed)) return true;
  const fs::path left = fs::weakly_canonical(fs::absolute(a, failed), failed);
  return !failed && left == fs::weakly_canonical(fs::absolute(b, failed), failed);
}

bool is_device(const fs::path& path) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  return names_open_file(path) || (fs::exists(status) && fs::is_other(status));
}

void check_output(const NamedOutput& output, const std::vector<NamedInput>& inputs) {
  const auto fail = [&](std::string why) {
    throw ConfigError({.key = output.option, .value = output.path.string(), .allowed = std::move(why)});
  };
  std::error_code failed;
  for (const NamedInput& input : inputs)
    if (!input.path.empty() && fs::is_regular_file(input.path, failed) && same_file(output.path, input.path))
      fail(fmt::format("is what {} names to be read: name another file", input.option));
  if (const std::string what = plan::belongs_to(output.path); !what.empty()) fail(what + ": name another file");
  if (output.is_kind && fs::is_regular_file(output.path, failed) && fs::file_size(output.path, failed) > 0 &&
      !output.is_kind(output.path))
    fail(fmt::format("is there already and is not {}: remove it, or name another file", output.kind));
}

}  // namespace

NamedOutput page_output(const char* option, const fs::path& path) {
  return {option, path, "a page of Trireme's", begins_with("<!doctype html>")};
}

NamedOutput trace_output(const char* option, const fs::path& path) {
  return {option, path, "a trace", begins_with("{\"")};
}

NamedOutput table_output(const char* option, const fs::path& path, const std::string& first_column) {
  return {option, path, "a table of Trireme's", begins_with(first_column + ",")};
}

NamedOutput run_output(const char* option, const fs::path& path) {
  return {option, path, "a run's file", is_run_file};
}

void check_outputs(const std::vector<NamedOutput>& outputs, const std::vector<NamedInput>& inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const NamedOutput& output = outputs[i];
    if (output.path.empty()) continue;
    if (!is_device(output.path)) {
      for (std::size_t other = 0; other < i; ++other)
        if (!outputs[other].path.empty() && same_file(outputs[other].path, output.path))
          throw ConfigError(
              {.key = output.option,
               .value = output.path.string(),
               .allowed = fmt::format("is what {} names to be written: name another file", outputs[other].option)});
      check_output(output, inputs);
    }
    check_writable(output.path);
  }
}

}  // namespace trireme::apps
