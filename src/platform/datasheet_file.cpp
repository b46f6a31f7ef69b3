#include "platform/datasheet_file.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/units.h"

namespace trireme::platform {

namespace {
constexpr double tera = 1e12, giga = 1e9, micro = 1e-6;
constexpr std::array formats{"float32", "bfloat16", "float16", "float8", "mxfp8", "nvfp4"};
constexpr std::array shapes{"switch", "mesh", "rail", "tree", "dragonfly"};
}  // namespace

Datasheet read_datasheet(ConfigTable t) {
  Datasheet d;
  d.memory_bytes_per_s = t.number("memory_GBps", 1e-3) * giga;
  d.host_link_bytes_per_s = t.number_or("host_link_GBps", 0, 0) * giga;
  d.host_memory_bytes = t.number_or("host_memory_GiB", 0, 0) * GiB;
  d.noise = t.number_or("noise", 0, 0, 1);
  for (ConfigTable& p : t.tables("peak"))
    d.peaks.push_back(
        {.format = p.one_of_or("format", "bfloat16", {"float32", "bfloat16", "float16", "float8", "mxfp8", "nvfp4"}),
         .flops_per_s = p.number("TFLOPps", 1e-6) * tera});
  for (ConfigTable& l : t.tables("level"))
    d.levels.push_back({.name = l.string("name"),
                        .shape = l.one_of_or("shape", "switch", {"switch", "mesh", "rail", "tree", "dragonfly"}),
                        .devices = static_cast<int>(l.integer_or("devices", 0, 0, 1 << 30)),
                        .latency_s = l.number("latency_us", 0) * micro,
                        .bytes_per_s = l.number("GBps", 1e-6) * giga,
                        .devices_per_port = static_cast<int>(l.integer_or("devices_per_port", 1, 1, 1 << 20)),
                        .taper = l.number_or("taper", 1, 1e-6, 1)});
  return d;
}

std::string to_toml(const Datasheet& d) {
  std::string out = fmt::format(
      "[datasheet]\nmemory_GBps = {:.6g}\nhost_link_GBps = {:.6g}\nhost_memory_GiB = {:.6g}\n"
      "noise = {:.6g}\n",
      d.memory_bytes_per_s / giga, d.host_link_bytes_per_s / giga, d.host_memory_bytes / GiB, d.noise);
  for (const FormatPeak& p : d.peaks)
    out += fmt::format("\n[[datasheet.peak]]\nformat = \"{}\"\nTFLOPps = {:.6g}\n", p.format, p.flops_per_s / tera);
  for (const FabricLevel& l : d.levels)
    out += fmt::format(
        "\n[[datasheet.level]]\nname = {}\nshape = \"{}\"\ndevices = {}\nlatency_us = {:.6g}\nGBps = {:.6g}\n"
        "devices_per_port = {}\ntaper = {:.6g}\n",
        nlohmann::json(l.name).dump(), l.shape, l.devices, l.latency_s / micro, l.bytes_per_s / giga,
        l.devices_per_port, l.taper);
  return out;
}

void check_datasheet(const Datasheet& d, const std::string& file) {
  const auto fail = [&](const std::string& key, const std::string& value, const std::string& allowed) {
    throw ConfigError({.file = file, .key = key, .value = value, .allowed = allowed});
  };
  const auto known = [](const auto& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (std::size_t i = 0; i < d.peaks.size(); ++i) {
    if (!known(formats, d.peaks[i].format))
      fail(fmt::format("datasheet.peak[{}].format", i), d.peaks[i].format,
           fmt::format("one of {}", fmt::join(formats, ", ")));
    if (!(d.peaks[i].flops_per_s > 0))
      fail(fmt::format("datasheet.peak[{}].TFLOPps", i), fmt::format("{}", d.peaks[i].flops_per_s),
           "a positive number");
  }
  if (!(d.memory_bytes_per_s > 0))
    fail("datasheet.memory_GBps", fmt::format("{}", d.memory_bytes_per_s), "a positive number");
  if (d.levels.empty()) fail("datasheet.level", "", "is missing: at least one table is needed");
  for (std::size_t i = 0; i < d.levels.size(); ++i) {
    const FabricLevel& l = d.levels[i];
    const std::string key = fmt::format("datasheet.level[{}]", i);
    if (!known(shapes, l.shape)) fail(key + ".shape", l.shape, fmt::format("one of {}", fmt::join(shapes, ", ")));
    if (!(l.bytes_per_s > 0)) fail(key + ".GBps", fmt::format("{}", l.bytes_per_s), "a positive number");
    if (l.devices == 0 && i + 1 < d.levels.size())
      fail(key + ".devices", "0", "a number of devices (only the last level has no limit)");
    if (i > 0 && l.devices != 0 && l.devices <= d.levels[i - 1].devices)
      fail(key + ".devices", fmt::format("{}", l.devices), fmt::format("more than {}", d.levels[i - 1].devices));
  }
}

}  // namespace trireme::platform
