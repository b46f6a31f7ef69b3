// The files that a command's options name to be written, held against each other, against what the command reads, and
// against what is on the disk, before any work is done.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace trireme::apps {

struct NamedOutput {
  const char* option = "";
  std::filesystem::path path;  // empty: not given
  const char* kind = "";       // "a page"
  // Whether a file that is there already is of that kind, so that it may be replaced. None: any may.
  std::function<bool(const std::filesystem::path&)> is_kind;
};

NamedOutput page_output(const char* option, const std::filesystem::path& path);
NamedOutput trace_output(const char* option, const std::filesystem::path& path);
// A table whose first column is this one.
NamedOutput table_output(const char* option, const std::filesystem::path& path, const std::string& first_column);
NamedOutput run_output(const char* option, const std::filesystem::path& path);

struct NamedInput {
  const char* option = "";
  std::filesystem::path path;  // what is no file (empty, a name, a folder) is passed over
};

// ConfigError with the option and the path: a file that another option names too, that is read, that belongs to a run,
// a checkpoint, a model or a data set (plan/run_folder.h), or that has other content than what is written. Devices,
// pipes and names such as /dev/stdout are none of these. Then check_writable().
void check_outputs(const std::vector<NamedOutput>& outputs, const std::vector<NamedInput>& inputs);

}  // namespace trireme::apps
