#include "plan/run_file/tables.h"

namespace trireme::plan {

CheckpointSpec read_checkpoint(ConfigTable t, const std::filesystem::path& folder) {
  CheckpointSpec s;
  s.every = t.integer_or("every", s.every, 0);
  s.keep = static_cast<int>(t.integer_or("keep", s.keep, 0, 1 << 20));
  s.keep_every = t.integer_or("keep_every", s.keep_every, 0);
  s.keep_best = t.boolean_or("keep_best", s.keep_best);
  s.at_end = t.boolean_or("at_end", s.at_end);
  s.initial = resolved_path(t, "initial", folder, t.string_or("initial", "")).string();
  s.allow_changes = t.strings_or("allow_changes", {});
  for (const std::string& change : s.allow_changes)
    if (change != "seed" && change != "data") t.fail("allow_changes", "must be a list of \"seed\", \"data\"");
  return s;
}

std::string to_toml(const CheckpointSpec& checkpoint) {
  return TomlText("checkpoint")
      .line("every", checkpoint.every)
      .line("keep", checkpoint.keep)
      .line("keep_every", checkpoint.keep_every)
      .line("keep_best", checkpoint.keep_best)
      .line("at_end", checkpoint.at_end)
      .line("initial", checkpoint.initial)
      .line("allow_changes", checkpoint.allow_changes)
      .text();
}

}  // namespace trireme::plan
