#include "trireme/launch.h"

#include <algorithm>
#include <thread>

#include <unistd.h>

#include <fmt/format.h>

#include "base/errors.h"
#include "base/log.h"
#include "comm/local_launch.h"
#include "comm/rank_child.h"
#include "comm/thread_waiting.h"

namespace trireme::apps {

comm::LaunchEnv find_place(const Context& context) {
  comm::end_with_launcher(context.environment);
  comm::LaunchEnv env = comm::parse_launch_env(context.environment);
  if (!env.note.empty()) spdlog::warn("{}", env.note);
  return env;
}

void wait_asleep(const Context& context) {
  // Whoever has set one of them means it; and so this happens once.
  for (const auto& [name, value] : comm::passive_waiting)
    if (context.environment.contains(name)) return;
  std::vector<std::string> lines;
  for (const auto& [name, value] : context.environment) lines.push_back(fmt::format("{}={}", name, value));
  for (const auto& [name, value] : comm::passive_waiting) lines.push_back(fmt::format("{}={}", name, value));
  std::vector<char*> variables, arguments;
  for (std::string& line : lines) variables.push_back(line.data());
  for (const std::string& argument : context.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  variables.push_back(nullptr);
  arguments.push_back(nullptr);
  execve("/proc/self/exe", arguments.data(), variables.data());
  // Where that cannot be, threads spin: slower on a busy host, and no reason to end.
}

int launch_local(const LocalRanks& local, const Context& context) {
  // Each is a process that loads libtorch: many more than cores are a slip of the pen that would take the host down.
  const int most = 64 + 16 * static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (local.ranks > most)
    throw ConfigError({.key = "--ranks", .value = fmt::format("{}", local.ranks),
                       .allowed = fmt::format("are too many processes for this host of {} cores: at most {} are started",
                                              std::thread::hardware_concurrency(), most)});
  return comm::launch_local({.ranks = local.ranks,
                             .arguments = context.arguments,
                             .environment = context.environment,
                             .timeout = local.timeout,
                             .restarts = local.restarts,
                             .goes_on = local.goes_on});
}

}  // namespace trireme::apps
