// A figure that somebody has published of a run: the optional [published] table of a run's file. `trireme validate`
// predicts it; `trireme plan FILE` shows the run that it is of. What the figure's source does not say is assumed, and
// listed as such.
#pragma once
#include <string>
#include <vector>

#include "base/config_table.h"
#include "model/flops.h"

namespace trireme::plan {

enum class FigureUnit { tokens_per_s_per_device, tokens_per_s, tflops, mfu_percent, step_s };
const char* name_of(FigureUnit unit);    // the key's value: "tokens_per_s_per_device"
const char* unit_text(FigureUnit unit);  // "tokens/s a device"

struct PublishedSpec {
  double value = 0;
  double low = 0, high = 0;  // of a figure that is given as "about"; 0: exact
  FigureUnit unit = FigureUnit::tflops;
  std::string source;
  std::vector<std::string> assumed;  // what the source does not say, one a line
  int devices = 1;
  std::string stack;             // as `trireme plan --stack`; empty: the default
  std::vector<std::string> set;  // KEY=VALUE of the tables model, precision, load and execution, and kernels
  // What TFLOP/s and MFU count: GFLOP_per_token where that is given, else the convention's; over peak_TFLOPps, or the
  // platform's peak.
  double flops_per_token = 0;
  model::FlopConvention flops = model::megatron_flops;
  double peak_flops_per_s = 0;
  bool operator==(const PublishedSpec&) const = default;
};

PublishedSpec read_published(ConfigTable table);
std::string to_toml(const PublishedSpec& published);  // the table, with its heading

}  // namespace trireme::plan
