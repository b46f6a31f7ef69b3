// Who writes into a run's folder. The run keeps its id over all resumes; each start of the program is a session of it.
#pragma once
#include <string>

namespace trireme::train {

struct RunIdentity {
  std::string run, session;  // 12 random hexadecimal digits each; empty: not known
  bool operator==(const RunIdentity&) const = default;
};

std::string random_id();

}  // namespace trireme::train
