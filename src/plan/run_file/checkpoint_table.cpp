#include "plan/run_file/tables.h"

namespace trireme::plan {

CheckpointSpec read_checkpoint(ConfigTable t, const std::filesystem::path& folder) {
  CheckpointSpec s;
  s.every = t.integer_or("every", s.every, 0);
  s.keep = static_cast<int>(t.integer_or("keep", s.keep, 1, 1 << 20));
  s.at_end = t.boolean_or("at_end", s.at_end);
  s.initial = resolved_path(t, "initial", folder, t.string_or("initial", "")).string();
  return s;
}

std::string to_toml(const CheckpointSpec& checkpoint) {
  return TomlText("checkpoint")
      .line("every", checkpoint.every)
      .line("keep", checkpoint.keep)
      .line("at_end", checkpoint.at_end)
      .line("initial", checkpoint.initial)
      .text();
}

}  // namespace trireme::plan
