#include "trireme/found_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/atomic_file.h"
#include "model/compute_dtype.h"
#include "model/untrainable.h"

namespace trireme::apps {

namespace {

namespace fs = std::filesystem;

}  // namespace

plan::RunSpec run_of(const sim::Setting& s, const RunPlace& place) {
  const fs::path file = fs::absolute(place.out);
  plan::RunSpec run;
  run.file = place.out.string();
  run.name = file.stem().string();
  run.folder = (file.parent_path() / "runs" / run.name).lexically_normal();
  if (!place.platform.empty()) run.platform = fs::absolute(place.platform).lexically_normal();
  run.model = s.model;
  run.layout = s.layout;
  run.batch = s.batch;
  run.data.train = {{.prefix = place.data.empty() ? "random" : fs::absolute(place.data).lexically_normal().string()}};
  run.device.device = place.device;
  run.device.dtype = model::dtype_of(s.precision.compute);
  run.device.reduce_dtype = s.precision.reduce_bytes >= 4 ? DType::float32 : run.device.dtype;
  return run;
}

std::vector<plan::RefusedKey> refused_by_train(const sim::Setting& s) {
  std::vector<plan::RefusedKey> out = plan::refused_keys(s.layout);
  const std::string format = model::name_of(s.precision.compute);
  if (const auto dtype = name_of(model::dtype_of(s.precision.compute)); format != dtype)
    out.push_back({"precision.compute", format, "must be float32, bfloat16 or float16"});
  for (const model::Untrainable& u : model::untrainable(s.model)) out.push_back({u.key, u.value, u.reason});
  return out;
}

std::string refused_text(const std::vector<plan::RefusedKey>& refused) {
  std::vector<std::string> parts;
  for (const plan::RefusedKey& r : refused) parts.push_back(fmt::format("{} = {} ({})", r.key, r.value, r.wanted));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void write_run(const fs::path& path, const plan::RunSpec& run, const std::vector<std::string>& about) {
  std::string text;
  for (const std::string& line : about) text += "# " + line + "\n";
  write_file_atomically(path, text + plan::to_toml(run));
}

}  // namespace trireme::apps
