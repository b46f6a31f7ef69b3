#include "plan/run_file/tables.h"

namespace trireme::plan {

namespace {

DType read_dtype(ConfigTable& t, const char* key) {
  return dtype_from_name(t.one_of_or(key, "float32", {"float32", "float64", "bfloat16", "float16"}));
}

}  // namespace

DeviceSpec read_device(ConfigTable t) {
  DeviceSpec s;
  s.device = t.one_of_or("device", s.device, {"cpu", "cuda"});
  s.dtype = read_dtype(t, "dtype");
  // Gradients in messages keep the precision that they are accumulated in unless told otherwise.
  s.reduce_dtype = t.has("reduce_dtype") ? read_dtype(t, "reduce_dtype") : accumulate_dtype(s.dtype);
  t.string_or("reduce_dtype", "");
  s.threads = static_cast<int>(t.integer_or("threads", s.threads, 0, 1024));
  return s;
}

std::string to_toml(const DeviceSpec& s) {
  return TomlText("device")
      .line("device", s.device)
      .line("dtype", std::string(name_of(s.dtype)))
      .line("reduce_dtype", std::string(name_of(s.reduce_dtype)))
      .line("threads", s.threads)
      .text();
}

}  // namespace trireme::plan
