// `trireme probe --links` and `--all-to-all`: what ranks of one or many hosts measure of the network between them.
#pragma once
#include <string>
#include <vector>

#include "comm/launch_env.h"

namespace trireme::apps {

struct NetworkProbeOptions {
  comm::LaunchEnv env;
  bool links = false;       // measure links and write them to `out`
  bool all_to_all = false;  // race patterns; measures the links first where `out` has none for this many ranks
  std::string out;          // platform file: read where it exists, its links replaced
  std::vector<double> bytes_per_pair;  // empty: the default
  std::vector<std::string> patterns;   // empty: all that fit
  int top_k = 8;
  int samples = 7;
  int nodes_per_group = 0;
  bool save_race = false;  // write the race's times to `out`: choices go by them from then on
  bool quick = false, json = false;
};

// Collective over the ranks of the launch.
void probe_network(const NetworkProbeOptions& options);

}  // namespace trireme::apps
