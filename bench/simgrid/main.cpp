// Holds sim's price of all-to-all patterns against their execution in SimGrid on the same network: one JSON line a
// case.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <simgrid/s4u.hpp>

#include "base/errors.h"
#include "comparison.h"

namespace {

using namespace trireme;

int run(int argc, char** argv) {
  simgrid_bench::Setting setting;
  std::vector<std::string> patterns;
  std::vector<double> bytes{512, 4096, 32768, 262144, 4194304};
  std::vector<std::string> counts{"balanced", "skewed"};
  double message_us = 1;
  CLI::App app{
      "Prices all-to-all patterns with sim and executes them in SimGrid on the same network; prints JSON lines."};
  app.add_option("--platform", setting.platform, "Platform file with a data sheet")->required();
  app.add_option("--topology", setting.topology, "dragonfly or fat_tree")
      ->check(CLI::IsMember({"dragonfly", "fat_tree"}));
  app.add_option("--ranks", setting.ranks, "Members")->check(CLI::PositiveNumber);
  app.add_option("--ranks-per-node", setting.ranks_per_node, "Members a node")->check(CLI::PositiveNumber);
  app.add_option("--nodes-per-group", setting.nodes_per_group, "Nodes a group (0: one group)")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--message-us", message_us, "A member's own time for a message sent and one received")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--patterns", patterns, "Names (all that fit)")->delimiter(',');
  app.add_option("--bytes", bytes, "Bytes that a member has for each other one")->delimiter(',');
  app.add_option("--counts", counts, "balanced, skewed or both")
      ->delimiter(',')
      ->check(CLI::IsMember({"balanced", "skewed"}));
  app.add_option("--rows", setting.skewed_rows, "Rows of a member for each other one where skewed, on average")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", setting.seed, "Of skewed counts");
  double most_median = -1, most = -1;
  app.add_option("--most-median", most_median, "Fail where the median of |sim / SimGrid - 1| over the cases is larger");
  app.add_option("--most", most, "Fail where that of any case is larger");
  CLI11_PARSE(app, argc, argv);
  setting.message_s = message_us * 1e-6;

  const auto engine = simgrid_bench::make_engine();
  simgrid_bench::Comparison comparison(setting);
  if (patterns.empty()) patterns = comparison.patterns();
  // One actor that runs the cases in turn: others only live inside one.
  std::vector<double> errors;
  simgrid::s4u::Actor::create("cases", engine->get_all_hosts().front(), [&] {
    for (const std::string& name : patterns)
      for (const std::string& of : counts)
        for (const double size : bytes) {
          const nlohmann::json line = comparison.run({name, of, size});
          errors.push_back(std::abs(line.at("ratio").get<double>() - 1));
          std::cout << line.dump() << std::endl;
        }
  });
  engine->run();
  std::sort(errors.begin(), errors.end());
  const double median = errors[errors.size() / 2];
  std::cerr << fmt::format("{} cases, |sim / SimGrid - 1|: median {:.4f}, largest {:.4f}\n", errors.size(), median,
                           errors.back());
  return (most_median >= 0 && median > most_median) || (most >= 0 && errors.back() > most) ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const ConfigError& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}
