// Sends and receives a pattern's messages on a group, as the value says: phases start when those that they are after
// have arrived, independent ones run side by side, no more messages are under way than in_flight. What the messages
// hold is the contents' business (rows of blocks, tokens, counts).
#pragma once
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "comm/group.h"
#include "comm/phase_log.h"
#include "plan/all_to_all/pattern.h"

namespace trireme::comm {

struct OwnMessage {
  int index = 0;  // among the phase's sends or receives
  int peer = 0;   // rank inside the group
  std::vector<plan::Parcel> parcels;
};

struct OwnPhase {
  std::string name;
  std::vector<int> after;
  int in_flight = 0;
  bool awaited = false;  // others come after it
  std::vector<OwnMessage> sends, receives;
  std::vector<plan::Parcel> kept;  // of a transfer to itself
};

// What one member sends and receives of a pattern.
struct OwnPart {
  std::string pattern;
  plan::Flow flow = plan::Flow::dispatch;
  int size = 1;
  std::vector<OwnPhase> phases;
};
OwnPart own_part(const plan::Pattern& pattern, int member);

// Both ends of a message must give it the same number of bytes; with none it is not sent. Tensors must stay alive until
// run_messages returns.
class MessageContents {
 public:
  virtual ~MessageContents() = default;
  // Contiguous bytes. Called when all phases before have arrived.
  virtual at::Tensor to_send(int phase, const OwnMessage& message) = 0;
  // Where it is received: contiguous bytes. May be called before earlier phases have arrived.
  virtual at::Tensor to_receive(int phase, const OwnMessage& message) = 0;
  // It is there. In the order of the phase's receives.
  virtual void received(int phase, const OwnMessage& message, const at::Tensor& bytes) = 0;
  // A parcel that stays on the member: called when the phase starts.
  virtual void keep(int phase, const plan::Parcel& parcel) = 0;
};

// "dispatch mb 0 layer 1, halo phase remote": what is done, for errors.
std::string in_phase(const std::string& operation, const std::string& pattern, const std::string& phase);

// Collective. On CPU by messages between pairs; elsewhere one all-to-all of the backend a phase, one phase after
// another. A failure is a RuntimeFailure that names the operation, the pattern, the phase and the peer. `log` may be
// null.
void run_messages(Group& group, const OwnPart& part, MessageContents& contents, const std::string& operation,
                  PhaseLog* log = nullptr);

}  // namespace trireme::comm
