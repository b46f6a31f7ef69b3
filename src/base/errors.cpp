#include "base/errors.h"

namespace trireme {
namespace {

std::string text(const ConfigError::Detail& d) {
  std::string out;
  if (!d.file.empty()) out += d.file + ": ";
  if (!d.key.empty()) out += d.key;
  if (!d.value.empty()) out += fmt::format("{}{}", d.key.empty() ? "" : " = ", d.value);
  if (!d.allowed.empty()) out += fmt::format("{}{}", d.key.empty() && d.value.empty() ? "" : ": ", d.allowed);
  return out;
}

std::string text(const RuntimeFailure::Detail& d) {
  std::string out = d.rank >= 0 ? fmt::format("rank {}: {}", d.rank, d.reason) : d.reason;
  if (!d.operation.empty()) out += fmt::format(" [operation {}]", d.operation);
  if (!d.group.empty()) out += fmt::format(" [group {}]", d.group);
  return out;
}

}  // namespace

ConfigError::ConfigError(Detail detail) : std::runtime_error(text(detail)), detail_(std::move(detail)) {}
RuntimeFailure::RuntimeFailure(Detail detail) : std::runtime_error(text(detail)), detail_(std::move(detail)) {}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw std::logic_error(fmt::format("bug at {}:{}: {} does not hold{}{}", file, line, condition,
                                     message.empty() ? "" : ": ", message));
}

}  // namespace trireme
