#include "plan/published_spec.h"

#include <array>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trireme::plan {

namespace {

struct UnitName {
  FigureUnit unit;
  const char *key, *text;
};
constexpr std::array<UnitName, 5> units{
    {{FigureUnit::tokens_per_s_per_device, "tokens_per_s_per_device", "tokens/s a device"},
     {FigureUnit::tokens_per_s, "tokens_per_s", "tokens/s"},
     {FigureUnit::tflops, "tflops", "TFLOP/s a device"},
     {FigureUnit::mfu_percent, "mfu_percent", "% MFU"},
     {FigureUnit::step_s, "step_s", "s a step"}}};

const UnitName& entry(FigureUnit unit) {
  return units[static_cast<std::size_t>(unit)];
}

}  // namespace

const char* name_of(FigureUnit unit) {
  return entry(unit).key;
}
const char* unit_text(FigureUnit unit) {
  return entry(unit).text;
}

PublishedSpec read_published(ConfigTable t) {
  PublishedSpec s;
  s.value = t.number("value", 1e-9, 1e30);
  const std::vector<double> range = t.numbers_or("range", {});
  if (!range.empty() && (range.size() != 2 || range[0] > s.value || range[1] < s.value || range[0] <= 0))
    t.fail("range", "must be the least and the most that \"about\" means, with the value in between");
  if (!range.empty()) s.low = range[0], s.high = range[1];
  const std::string unit =
      t.one_of_or("unit", "", {"tokens_per_s_per_device", "tokens_per_s", "tflops", "mfu_percent", "step_s"});
  for (const UnitName& u : units)
    if (unit == u.key) s.unit = u.unit;
  s.source = t.string("source");
  s.assumed = t.strings_or("assumed", {});
  s.devices = static_cast<int>(t.integer("devices", 1, 1 << 24));
  s.stack = t.string_or("stack", "");
  s.set = t.strings_or("set", {});
  s.flops_per_token = t.number_or("GFLOP_per_token", 0, 0, 1e12) * 1e9;
  s.peak_flops_per_s = t.number_or("peak_TFLOPps", 0, 0, 1e9) * 1e12;
  ConfigTable f = t.table("flops");
  s.flops.square = f.one_of_or("square", "causal", {"causal", "full"}) == "full" ? model::AttentionSquare::full
                                                                                 : model::AttentionSquare::causal;
  s.flops.head = f.boolean_or("head", s.flops.head);
  s.flops.router = f.boolean_or("router", s.flops.router);
  s.flops.mtp = f.boolean_or("mtp", s.flops.mtp);
  return s;
}

std::string to_toml(const PublishedSpec& s) {
  const auto text = [](const auto& value) { return nlohmann::json(value).dump(); };
  std::string out = "\n[published]\n";
  const auto line = [&](const char* key, const auto& value) { out += fmt::format("{} = {}\n", key, value); };
  line("value", s.value);
  if (s.low > 0) out += fmt::format("range = [{}, {}]\n", s.low, s.high);
  line("unit", text(name_of(s.unit)));
  line("source", text(s.source));
  line("assumed", text(s.assumed));
  line("devices", s.devices);
  line("stack", text(s.stack));
  line("set", text(s.set));
  line("GFLOP_per_token", s.flops_per_token / 1e9);
  line("peak_TFLOPps", s.peak_flops_per_s / 1e12);
  out += "\n[published.flops]\n";
  line("square", text(s.flops.square == model::AttentionSquare::full ? "full" : "causal"));
  line("head", s.flops.head);
  line("router", s.flops.router);
  line("mtp", s.flops.mtp);
  return out;
}

}  // namespace trireme::plan
