#include "search/layouts/given_layout.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "plan/layout_keys.h"
#include "search/layouts/layout_rules.h"
#include "plan/all_to_all/generators.h"
#include "search/layouts/question_table.h"

namespace trireme::search {

Question given_layout(const plan::RunSpec& run, int num_devices, Question q) {
  const auto fail = [&](const char* key, std::string value, std::string allowed) {
    throw ConfigError({.file = run.file, .key = key, .value = std::move(value), .allowed = std::move(allowed)});
  };
  sim::Setting& s = q.base;
  s.layout = run.layout, s.batch = run.batch, s.num_devices = num_devices;
  const auto known = plan::priced_pattern_names();
  if (std::find(known.begin(), known.end(), s.layout.all_to_all) == known.end())
    fail("layout.all_to_all", s.layout.all_to_all,
         fmt::format("one of {}: nothing else is priced", fmt::join(known, ", ")));
  if (s.layout.dp == 0) s.layout.dp = data_degree(s);
  for (const std::string& broken : broken_rules(s)) fail("layout", fmt::format("{} devices", s.num_devices), broken);
  for (const plan::LayoutKey& key : plan::layout_keys()) q.given.insert("layout." + key.name);
  for (const char* key : {"batch.micro_batch", "batch.global_batch", "batch.sequence_length"}) q.given.insert(key);
  return q;
}

}  // namespace trireme::search
