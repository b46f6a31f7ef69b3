#include "platform/platform_checks.h"

#include <cmath>
#include <initializer_list>
#include <utility>

#include <fmt/format.h>

#include "base/errors.h"
#include "platform/datasheet_file.h"

namespace trireme::platform {

namespace {

struct Checker {
  const std::string& file;

  [[noreturn]] void fail(const std::string& key, const std::string& value, const std::string& allowed) const {
    throw ConfigError({.file = file, .key = key, .value = value, .allowed = allowed});
  }

  // Columns of one table: as long as the first, all of it positive.
  void columns(const std::string& table,
               std::initializer_list<std::pair<const char*, const std::vector<double>*>> columns) const {
    const auto& [first_name, first] = *columns.begin();
    if (first->empty()) fail(fmt::format("{}.{}", table, first_name), "[]", "an array of at least one number");
    for (const auto& [name, values] : columns) {
      const std::string key = fmt::format("{}.{}", table, name);
      if (values->size() != first->size())
        fail(key, fmt::format("{} values", values->size()),
             fmt::format("as many values as {} ({})", first_name, first->size()));
      for (double v : *values)
        if (!(v > 0) || !std::isfinite(v)) fail(key, fmt::format("{}", v), "positive numbers");
    }
  }

  template <class T>
  void at_least_one(const std::string& key, const std::vector<T>& tables) const {
    if (tables.empty()) fail(key, "", "is missing: at least one table is needed");
  }
};

}  // namespace

void check(const PlatformSpec& p, const std::string& file_name) {
  const Checker c{file_name};
  const auto key = [](const char* table, std::size_t i) { return fmt::format("{}[{}]", table, i); };
  const Device& d = p.device;
  if (p.datasheet.empty()) {
    c.at_least_one("device.peak", d.peaks);
    c.at_least_one("device.gemm", d.gemm);
    c.at_least_one("device.memory", d.memory);
    c.at_least_one("link", p.links);
  } else {
    check_datasheet(p.datasheet, file_name);
  }
  for (std::size_t i = 0; i < d.gemm.size(); ++i) {
    const auto& t = d.gemm[i];
    c.columns(key("device.gemm", i), {{"m", &t.m}, {"n", &t.n}, {"k", &t.k}, {"GFLOPps", &t.flops_per_s}});
  }
  for (std::size_t i = 0; i < p.races.size(); ++i) {
    const auto& r = p.races[i];
    c.columns(key("pattern_race", i), {{"bytes", &r.bytes}, {"us", &r.seconds}});
  }
  for (std::size_t i = 0; i < d.grouped_gemm.size(); ++i) {
    const auto& t = d.grouped_gemm[i];
    c.columns(key("device.grouped_gemm", i),
              {{"rows", &t.rows}, {"n", &t.n}, {"k", &t.k}, {"groups", &t.groups}, {"GFLOPps", &t.flops_per_s}});
  }
  for (std::size_t i = 0; i < d.attention.size(); ++i) {
    const auto& t = d.attention[i];
    c.columns(key("device.attention", i),
              {{"sequence", &t.sequence}, {"heads", &t.heads}, {"head_dim", &t.head_dim},
               {"forward_GFLOPps", &t.forward_flops_per_s}, {"backward_GFLOPps", &t.backward_flops_per_s}});
  }
  for (std::size_t i = 0; i < d.memory.size(); ++i)
    c.columns(key("device.memory", i), {{"bytes", &d.memory[i].bytes}, {"GBps", &d.memory[i].bytes_per_s}});
  for (std::size_t i = 0; i < d.segments.size(); ++i) {
    const auto& t = d.segments[i];
    const std::string table = key("device.segment", i);
    c.columns(table, {{"factor", &t.factor}});
    if (!t.tokens.empty() || !t.experts.empty())
      c.columns(table, {{"factor", &t.factor}, {"tokens", &t.tokens}, {"experts", &t.experts}});
    if (!t.load_cv.empty() && t.load_cv.size() != t.factor.size())
      c.fail(table + ".load_cv", fmt::format("{} values", t.load_cv.size()), fmt::format("as many values as factor ({})", t.factor.size()));
    for (const double cv : t.load_cv)
      if (!(cv >= 0)) c.fail(table + ".load_cv", fmt::format("{}", cv), "at least 0");
    for (const auto& [name, words] : {std::pair{"segment", &t.segment}, {"layer", &t.layer}, {"pass", &t.pass}})
      if (words->size() != t.factor.size())
        c.fail(fmt::format("{}.{}", table, name), fmt::format("{} values", words->size()),
               fmt::format("as many values as factor ({})", t.factor.size()));
  }
  for (std::size_t i = 0; i < p.host.busy.size(); ++i) {
    const auto& t = p.host.busy[i];
    c.columns(key("host.busy", i), {{"ranks", &t.ranks}, {"slow_down", &t.slow_down}, {"hand_over_us", &t.hand_over_s}});
    if (!t.noise.empty()) c.columns(key("host.busy", i), {{"ranks", &t.ranks}, {"noise", &t.noise}});
    for (double v : t.slow_down)
      if (v < 0.5) c.fail(key("host.busy", i) + ".slow_down", fmt::format("{}", v), "at least 0.5 (1: no slower than alone)");
  }
  for (std::size_t i = 1; i < p.host.noise.factor.size(); ++i)
    if (p.host.noise.factor[i] < p.host.noise.factor[i - 1])
      c.fail("host.noise.factor", fmt::format("{} after {}", p.host.noise.factor[i], p.host.noise.factor[i - 1]),
             "quantiles, ascending");
  for (std::size_t i = 0; i < p.links.size(); ++i) {
    const Link& l = p.links[i];
    c.columns(key("link", i), {{"bytes", &l.bytes}, {"GBps", &l.bytes_per_s}});
    if (!l.p99_s.empty()) c.columns(key("link", i), {{"bytes", &l.bytes}, {"p99_us", &l.p99_s}});
    if (!l.max_s.empty()) c.columns(key("link", i), {{"bytes", &l.bytes}, {"max_us", &l.max_s}});
  }
  for (std::size_t i = 0; i < p.collectives.size(); ++i)
    c.columns(key("collective", i), {{"bytes", &p.collectives[i].bytes}, {"us", &p.collectives[i].seconds}});
}

}  // namespace trireme::platform
