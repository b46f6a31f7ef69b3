#include "plan/all_to_all/parcels.h"

namespace trireme::plan {

std::vector<Members> progressions(const std::vector<int>& members) {
  std::vector<Members> out;
  for (const int m : members) {
    if (!out.empty()) {
      Members& last = out.back();
      if (last.count == 1 || m - last.last() == last.stride) {
        if (last.count == 1) last.stride = m - last.first;
        ++last.count;
        continue;
      }
    }
    out.push_back({.first = m});
  }
  return out;
}

}  // namespace trireme::plan
