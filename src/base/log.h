// The log sink: standard error, one line a message, prefixed by the rank where there is more than one.
#pragma once
#include <string>

#include <spdlog/spdlog.h>

namespace trireme {

struct LogOptions {
  int rank = -1;              // -1: no prefix
  std::string level = "info"; // trace, debug, info, warn, error
};
void set_up_log(const LogOptions& options);  // once, from main

}  // namespace trireme
