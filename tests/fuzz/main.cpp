// fuzz SECONDS [--seed N] [--format NAME] [--out FOLDER]: mutates inputs of every format until the time is over. Inputs that
// are read wrongly are kept in FOLDER, one of each kind. Exit code 1 where there are any. `fuzz --read FORMAT FILE` reads one.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "fuzz/runner.h"
#include "fuzz/work_limit.h"

namespace {

using namespace trireme::fuzz;
using Clock = std::chrono::steady_clock;

int read_one(const std::vector<Format>& formats, const std::string& name, const std::string& file) {
  for (const Format& format : formats)
    if (format.name == name) {
      const auto fault = fault_of(format, source_file(std::filesystem::absolute(file)));
      fmt::print("{}\n", fault ? fault->what : "read, or refused");
      return fault ? 1 : 0;
    }
  fmt::print(stderr, "fuzz: no format {}\n", name);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 60;
  std::uint64_t seed = std::random_device{}();
  std::string only, folder = "fuzz-found";
  std::vector<std::string> read;
  CLI::App app("Mutates inputs of everything that Trireme reads.");
  app.add_option("SECONDS", seconds, "how long (60)");
  app.add_option("--seed", seed, "of the mutations (drawn)");
  app.add_option("--format", only, "only this one");
  app.add_option("--out", folder, "where inputs that are read wrongly are kept");
  app.add_option("--read", read, "FORMAT FILE: read one input")->expected(2);
  CLI11_PARSE(app, argc, argv);

  const std::vector<Format> formats = all_formats();
  if (!read.empty()) return read_one(formats, read[0], read[1]);
  std::filesystem::create_directories(folder);
  write_crashes_to(folder);
  fmt::print("seed {}\n", seed);
  std::map<std::string, int> kinds;    // format and what went wrong
  std::map<std::string, Tally> tallies;  // by format
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  auto said = Clock::now();
  std::int64_t inputs = 0;
  for (std::uint64_t round = 0; Clock::now() < end; ++round)
    for (const Format& format : formats) {
      if (!only.empty() && format.name != only) continue;
      const Tally tally = run(format, seed + round, 200, [&](const Fault& fault) {
        const int times = ++kinds[format.name + ": " + fault.what.substr(0, 60)];
        if (times > 1) return;
        const std::filesystem::path path = std::filesystem::path(folder) / fmt::format("{}-{}", format.name, kinds.size());
        write_file(path, fault.input);
        fmt::print("{}: {}\n  {}\n", format.name, fault.what.substr(0, 400), path.string());
      });
      inputs += tally.inputs;
      tallies[format.name].inputs += tally.inputs, tallies[format.name].refused += tally.refused;
      if (Clock::now() > end) break;
      if (Clock::now() - said > std::chrono::seconds(10)) {
        said = Clock::now();
        fmt::print("{} inputs, {} kinds of fault, {:.0f} s left\n", inputs, kinds.size(), std::chrono::duration<double>(end - said).count());
        std::fflush(stdout);
      }
    }
  for (const auto& [name, tally] : tallies)
    fmt::print("{:20} {:9} inputs, {:3} % refused\n", name, tally.inputs, 100 * tally.refused / tally.inputs);
  fmt::print("{} inputs of {} formats, {} kinds of fault\n", inputs, tallies.size(), kinds.size());
  for (const auto& [what, times] : kinds) fmt::print("  {} times {}\n", times, what);
  return kinds.empty() ? 0 : 1;
}
