#include "base/errors.h"

#include "base/printable.h"

namespace trireme {
namespace {

std::string text(const ConfigError::Detail& d) {
  std::string out;
  if (!d.file.empty()) out += d.file + ": ";
  if (!d.key.empty()) out += d.key;
  if (!d.value.empty()) out += fmt::format("{}{}", d.key.empty() ? "" : " = ", d.value);
  if (!d.allowed.empty()) out += fmt::format("{}{}", d.key.empty() && d.value.empty() ? "" : ": ", d.allowed);
  return printable(out);
}

std::string text(const RuntimeFailure::Detail& d) {
  std::string out = d.rank >= 0 ? fmt::format("rank {}: {}", d.rank, d.reason) : d.reason;
  if (!d.operation.empty()) out += fmt::format(" [operation {}]", d.operation);
  if (!d.group.empty()) out += fmt::format(" [group {}]", d.group);
  return printable(out);
}

}  // namespace

ConfigError::ConfigError(Detail detail) : std::runtime_error(text(detail)), detail_(std::move(detail)) {}
RuntimeFailure::RuntimeFailure(Detail detail) : std::runtime_error(text(detail)), detail_(std::move(detail)) {}

bool is_bad_path(const std::error_code& error) {
  for (const std::errc bad :
       {std::errc::no_such_file_or_directory, std::errc::not_a_directory, std::errc::is_a_directory,
        std::errc::permission_denied, std::errc::operation_not_permitted, std::errc::read_only_file_system,
        std::errc::file_exists, std::errc::directory_not_empty, std::errc::filename_too_long,
        std::errc::too_many_symbolic_link_levels})
    if (error == bad) return true;
  return false;
}

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  throw std::logic_error(fmt::format("bug at {}:{}: {} does not hold{}{}", file, line, condition,
                                     message.empty() ? "" : ": ", message));
}

}  // namespace trireme
