// Whether what a run needs is free on its host, before its first step: else the system's killer would end it later.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/errors.h"
#include "base/json.h"
#include "plan/run_files.h"
#include "platform/host_memory.h"
#include "platform/platform_spec.h"

namespace trireme::apps {

// What a rank of each stage holds at its highest, as the plan says.
struct MemoryNeed {
  std::vector<double> peak_bytes;                     // by stage
  std::vector<std::vector<plan::MemoryPart>> parts;   // by stage: what the peak consists of, largest first
  std::vector<double> copy_bytes;                     // by stage: of its first data rank, while a checkpoint is written
  double baseline_bytes = 0;                          // of a process before any tensor
  std::string device = "cpu";                         // of the run: with another the tensors lie on the device
  double device_bytes = 0;                            // that the platform's device has; 0: nobody said
};
TRIREME_JSON(MemoryNeed)

MemoryNeed memory_need(const plan::RunSpec& run, const plan::Prediction& prediction, const platform::PlatformSpec& platform);

// "values 1.2 GiB, gradients 1.2 GiB, moments 2.4 GiB, saved 500 MiB": of a stage's peak.
std::string parts_text(const std::vector<plan::MemoryPart>& parts);

// Ranks [first, first + count) of one host.
struct HostRanks {
  int first = 0, count = 1;
  bool started = false;  // they run already: what a process holds before any tensor is in use by now
};

// Why they don't fit, one sentence; none: they do, or nothing is known of the host.
std::optional<std::string> memory_shortage(const MemoryNeed& need, const plan::Mesh& mesh, const HostRanks& ranks,
                                           const platform::HostMemory& host);

// The error that ends a run for it: file, key "memory".
ConfigError memory_error(const plan::RunSpec& run, const std::string& shortage);

}  // namespace trireme::apps
