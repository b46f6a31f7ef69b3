// What main hands to the commands.
#pragma once
#include <map>
#include <string>
#include <vector>

namespace trireme::apps {

struct Context {
  std::vector<std::string> arguments;                // argv, for commands that start themselves again as ranks
  std::map<std::string, std::string> environment;    // read once, in main
  int exit_code = 0;
};

}  // namespace trireme::apps
