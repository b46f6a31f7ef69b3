#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace trireme {

void set_up_log(const LogOptions& options) {
  auto logger = std::make_shared<spdlog::logger>("trireme", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  const std::string rank = options.rank >= 0 ? fmt::format("[rank {}] ", options.rank) : "";
  logger->set_pattern("%H:%M:%S " + rank + "%^%l%$ %v");
  logger->set_level(spdlog::level::from_str(options.level));
  logger->flush_on(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace trireme
