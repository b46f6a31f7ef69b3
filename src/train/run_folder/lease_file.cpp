#include "train/run_folder/lease_file.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <sstream>

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trireme::train {
namespace {

constexpr std::size_t lease_bytes = 1024;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

std::string boot_id() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  in >> id;
  return id;
}

// Empty where the system doesn't tell: then a pid says nothing.
std::string process_place() {
  struct stat status {};
  const std::string boot = boot_id();
  if (boot.empty() || ::stat("/proc/self/ns/pid", &status) != 0) return {};
  return fmt::format("{}/{}", boot, status.st_ino);
}

// Field 22 of /proc/PID/stat, counted behind the name's closing bracket; empty: no such process.
std::string start_time(std::int64_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(in, line);
  const std::size_t bracket = line.rfind(')');
  if (bracket == std::string::npos) return {};
  std::istringstream rest(line.substr(bracket + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number)
    if (!(rest >> field)) return {};
  return field;
}

}  // namespace

LeaseHolder this_process(const RunIdentity& identity) {
  return {.identity = identity,
          .host = host_name(),
          .pid = ::getpid(),
          .started = start_time(::getpid()),
          .place = process_place(),
          .since = fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr)))};
}

std::optional<bool> is_dead(const LeaseHolder& holder) {
  const std::string here = process_place();
  if (here.empty() || holder.place != here || holder.pid <= 0) return std::nullopt;
  if (::kill(static_cast<pid_t>(holder.pid), 0) != 0 && errno == ESRCH) return true;
  return !holder.started.empty() && start_time(holder.pid) != holder.started;
}

std::string describe(const LeaseHolder& holder) {
  return fmt::format("run {} on {}, process {}, since {}", holder.identity.run, holder.host, holder.pid, holder.since);
}

std::string lease_text(const LeaseHolder& h) {
  const nlohmann::ordered_json json = {{"run", h.identity.run}, {"session", h.identity.session}, {"host", h.host},
                                       {"pid", h.pid},          {"started", h.started},          {"place", h.place},
                                       {"since", h.since},      {"beat", h.beat}};
  std::string text = json.dump();
  if (text.size() + 1 < lease_bytes) text.resize(lease_bytes - 1, ' ');
  return text + "\n";
}

std::optional<LeaseHolder> parse_lease(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  try {
    return LeaseHolder{.identity = {json.at("run").get<std::string>(), json.at("session").get<std::string>()},
                       .host = json.at("host").get<std::string>(),
                       .pid = json.at("pid").get<std::int64_t>(),
                       .started = json.at("started").get<std::string>(),
                       .place = json.at("place").get<std::string>(),
                       .since = json.at("since").get<std::string>(),
                       .beat = json.at("beat").get<std::int64_t>()};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace trireme::train
