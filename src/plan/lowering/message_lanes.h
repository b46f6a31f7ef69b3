// On which lanes a stage's messages to and from other stages go. In each pass those with the first peer that a chunk
// has are on the pass's own lane, those with others on the turned one (a V's way back).
#pragma once
#include <vector>

#include "plan/lowering/draft.h"

namespace trireme::plan {

class MessageLanes {
 public:
  explicit MessageLanes(const Draft& d)
      : before_(first_other(d.previous_stage, d.stage)), after_(first_other(d.next_stage, d.stage)) {}

  Lane receive(Pass pass, int peer) const {
    if (pass == Pass::forward) return peer == before_ ? Lane::forward_receive : Lane::turned_forward_receive;
    return peer == after_ ? Lane::backward_receive : Lane::turned_backward_receive;
  }
  Lane send(Pass pass, int peer) const {
    if (pass == Pass::forward) return peer == after_ ? Lane::forward_send : Lane::turned_forward_send;
    return peer == before_ ? Lane::backward_send : Lane::turned_backward_send;
  }

 private:
  static int first_other(const std::vector<int>& peers, int stage) {
    for (const int peer : peers)
      if (peer >= 0 && peer != stage) return peer;
    return -1;
  }
  int before_, after_;  // the peers of the passes' own lanes: -1: there is none
};

}  // namespace trireme::plan
