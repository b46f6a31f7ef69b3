// When a slot of a chunk's begins: for the passes that put something beside it.
#pragma once
#include <vector>

#include "plan/lowering/draft.h"

namespace trireme::plan {

class SlotStart {
 public:
  // Of a slot's compute action: ids of all that it waits for, the action before it on its lane included.
  std::vector<int> of(const Action& compute) const {
    std::vector<int> out = compute.waits;
    out.insert(out.end(), received_.begin(), received_.end());
    if (previous_ >= 0) out.push_back(previous_);
    return out;
  }
  // Every action of the list in its order.
  void see(const Action& a) {
    if (a.kind == ActionKind::receive) received_.push_back(a.id);
    if (a.lane == Lane::compute) previous_ = a.id, received_.clear();
  }

 private:
  int previous_ = -1;
  std::vector<int> received_;  // for the next compute action
};

}  // namespace trireme::plan
