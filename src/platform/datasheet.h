// What data sheets say of an accelerator and of the fabric that joins many: enough to estimate a step where nobody has
// measured curves. Bandwidths are of one direction. Efficiencies are not here: they are a StackProfile's.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace trireme::platform {

// Dense matrix operations a second of the device, by the format of the operands: float32, bfloat16, float16, float8,
// mxfp8 or nvfp4.
struct FormatPeak {
  std::string format;
  double flops_per_s = 0;
  bool operator==(const FormatPeak&) const = default;
};

// One level of the fabric: how its devices reach one another when they share no level further in.
struct FabricLevel {
  std::string name;              // "node", "nvlink_domain", "switch_group", "dragonfly_group", "global"
  std::string shape = "switch";  // switch | mesh (a link to each peer, bandwidth is their sum) | rail (a switch for
                                 // each device's place in the node) | tree | dragonfly
  int devices = 0;           // in one unit of this level; 0: no limit (only the last)
  double latency_s = 0;      // of a message between two devices, one way, software included
  double bytes_per_s = 0;    // of one port, one direction
  int devices_per_port = 1;  // that share it (a network card of several devices)
  double taper = 1;          // bandwidth between units of the level before over what their devices inject together

  // Of one device while all devices of the unit send.
  double device_bytes_per_s() const { return bytes_per_s * taper / devices_per_port; }
  bool operator==(const FabricLevel&) const = default;
};

struct Datasheet {
  std::vector<FormatPeak> peaks;
  double memory_bytes_per_s = 0;     // of the device's own memory
  double host_link_bytes_per_s = 0;  // device to host, of one device while all of a node copy
  double host_memory_bytes = 0;      // of a device's share of the host
  double noise = 0;                  // how much longer the slowest of many equal devices takes, over their mean
  std::vector<FabricLevel> levels;   // from the inside out

  bool empty() const { return peaks.empty(); }
  // The peak of a format; for one that is not listed that of the next wider one (mxfp8 -> float8 -> bfloat16;
  // float16 and bfloat16 stand for one another; nvfp4 -> float8). 0 where there is none.
  double peak(std::string_view format) const;
  // The innermost level whose unit holds `devices` consecutive devices; the last one where none does.
  int level_of(int devices) const;
  bool operator==(const Datasheet&) const = default;
};

TRIREME_JSON(FormatPeak)
TRIREME_JSON(FabricLevel)
TRIREME_JSON(Datasheet)

}  // namespace trireme::platform
