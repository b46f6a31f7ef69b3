#include "plan/run_file/tables.h"

namespace trireme::plan {

BatchSpec read_batch(ConfigTable t) {
  BatchSpec s;
  s.sequence_length = t.integer_or("sequence_length", s.sequence_length, 1, 1 << 30);
  s.micro_batch = t.integer_or("micro_batch", s.micro_batch, 1, 1 << 30);
  s.global_batch = t.integer_or("global_batch", s.global_batch, 1, 1 << 30);
  return s;
}

std::string to_toml(const BatchSpec& batch) {
  return TomlText("batch")
      .line("sequence_length", batch.sequence_length)
      .line("micro_batch", batch.micro_batch)
      .line("global_batch", batch.global_batch)
      .text();
}

}  // namespace trireme::plan
