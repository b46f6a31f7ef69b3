#include "comm/pattern_messages.h"

#include <deque>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/errors.h"
#include "comm/error_text.h"
#include "comm/issue_order.h"

namespace trireme::comm {
namespace {

// Tags of a pattern's messages: one a phase, apart from those of plain sends.
constexpr int first_tag = 0x5000;

class PairwiseRun {
 public:
  PairwiseRun(Group& group, const OwnPart& part, MessageContents& contents, const std::string& operation)
      : group_(group), part_(part), contents_(contents), operation_(operation), state_(part.phases.size()) {}

  void write(PhaseLog& log) const {
    for (std::size_t i = 0; i < state_.size(); ++i)
      log.add(part_.phases[i].name, state_[i].begin, static_cast<int>(i) == last_ ? all_sent_ : state_[i].end);
  }

  void run() {
    const int n = static_cast<int>(part_.phases.size());
    // Receives first, those of later phases too: a sender whose peer waits already need not ask.
    for (int i = 0; i < n; ++i) post_receives(i);
    start_ready();
    // What others wait for comes first; a phase that is started is never behind one that is not.
    for (int finished = 0; finished < n; ++finished) {
      int next = -1;
      for (int i = 0; i < n; ++i) {
        if (!state(i).started || state(i).arrived) continue;
        if (next < 0 || (phase(i).awaited && !phase(next).awaited)) next = i;
      }
      TRIREME_CHECK(next >= 0, "{}: no phase can start", part_.pattern);
      receive_all(next);
      state(next).arrived = true;
      state(next).end = PhaseLog::Clock::now();
      last_ = next;
      start_ready();
    }
    for (int i = n - 1; i >= 0; --i) {
      std::deque<Pending>& sending = state(i).sending;
      for (auto last = sending.rbegin(); last != sending.rend(); ++last)
        if (last->work) guarded(true, i, *last->message, [&] { last->work->wait(); });
      sending.clear();
    }
    all_sent_ = PhaseLog::Clock::now();
  }

 private:
  struct Pending {
    c10::intrusive_ptr<c10d::Work> work;
    at::Tensor bytes;
    const OwnMessage* message;
  };
  struct State {
    bool started = false, arrived = false;
    PhaseLog::Clock::time_point begin, end;
    std::size_t next_send = 0, next_receive = 0;
    std::deque<Pending> sending, receiving;
  };

  const OwnPhase& phase(int i) const { return part_.phases[static_cast<std::size_t>(i)]; }
  State& state(int i) { return state_[static_cast<std::size_t>(i)]; }
  bool room(int i, std::size_t under_way) const {
    return phase(i).in_flight == 0 || under_way < static_cast<std::size_t>(phase(i).in_flight);
  }

  void fail(bool sends, int i, const OwnMessage& message, const std::string& reason) {
    group_.fail(
        fmt::format("{} {}, {} rank {}", sends ? "send" : "receive", in_phase(operation_, part_.pattern, phase(i).name),
                    sends ? "to" : "from", group_.members()[static_cast<std::size_t>(message.peer)]),
        message.peer, reason);
  }

  template <class Act>
  void guarded(bool sends, int i, const OwnMessage& message, Act&& act) {
    std::string reason;
    try {
      act();
      return;
    } catch (const std::logic_error&) {
      throw;  // a bug
    } catch (const std::exception& error) {
      reason = error_text(error);
    }
    fail(sends, i, message, reason);
  }

  void start_ready() {
    std::vector<int> ready;
    for (int i = 0; i < static_cast<int>(state_.size()); ++i) {
      if (state(i).started) continue;
      bool open = true;
      for (const int before : phase(i).after) open = open && state(before).arrived;
      if (!open) continue;
      ready.insert(phase(i).awaited ? ready.begin() : ready.end(), i);
    }
    for (const int i : ready) {
      state(i).started = true;
      state(i).begin = PhaseLog::Clock::now();
      post_sends(i);
    }
    for (const int i : ready)
      for (const plan::Parcel& parcel : phase(i).kept) contents_.keep(i, parcel);
  }

  void post_receives(int i) {
    State& s = state(i);
    for (; s.next_receive < phase(i).receives.size() && room(i, s.receiving.size()); ++s.next_receive) {
      const OwnMessage& message = phase(i).receives[s.next_receive];
      at::Tensor bytes = contents_.to_receive(i, message);
      c10::intrusive_ptr<c10d::Work> work;
      if (bytes.numel() > 0)
        guarded(false, i, message, [&] {
          std::vector<at::Tensor> tensors{bytes};
          work = group_.backend()->recv(tensors, message.peer, first_tag + i);
        });
      s.receiving.push_back({std::move(work), std::move(bytes), &message});
    }
  }

  void post_sends(int i) {
    State& s = state(i);
    for (; s.next_send < phase(i).sends.size() && room(i, s.sending.size()); ++s.next_send) {
      const OwnMessage& message = phase(i).sends[s.next_send];
      at::Tensor bytes = contents_.to_send(i, message);
      c10::intrusive_ptr<c10d::Work> work;  // none for an empty message, which still is a step
      if (bytes.numel() > 0)
        guarded(true, i, message, [&] {
          std::vector<at::Tensor> tensors{bytes};
          work = group_.backend()->send(tensors, message.peer, first_tag + i);
        });
      s.sending.push_back({std::move(work), std::move(bytes), &message});
    }
  }

  void wait_for_send(int i) {
    State& s = state(i);
    if (s.sending.front().work) guarded(true, i, *s.sending.front().message, [&] { s.sending.front().work->wait(); });
    s.sending.pop_front();
    post_sends(i);
  }

  void receive_all(int i) {
    State& s = state(i);
    if (phase(i).in_flight == 0) {
      // The last one first: when it is there most others are, and this thread has slept once and not for each.
      for (auto last = s.receiving.rbegin(); last != s.receiving.rend(); ++last)
        if (last->work) guarded(false, i, *last->message, [&] { last->work->wait(); });
      for (const Pending& arrived : s.receiving) contents_.received(i, *arrived.message, arrived.bytes);
      s.receiving.clear();
      return;
    }
    while (!s.receiving.empty()) {
      const Pending arrived = s.receiving.front();
      if (arrived.work) guarded(false, i, *arrived.message, [&] { arrived.work->wait(); });
      s.receiving.pop_front();
      post_receives(i);
      // Steps of a bounded phase go in pairs, a send and a receive.
      if (!s.sending.empty()) wait_for_send(i);
      contents_.received(i, *arrived.message, arrived.bytes);
    }
    while (!s.sending.empty()) wait_for_send(i);
  }

  Group& group_;
  const OwnPart& part_;
  MessageContents& contents_;
  const std::string& operation_;
  std::vector<State> state_;
  int last_ = -1;  // phase to arrive
  PhaseLog::Clock::time_point all_sent_;
};

// Where there are no tags (NCCL), and streams order what is issued.
void run_by_collectives(Group& group, const OwnPart& part, MessageContents& contents, const std::string& operation,
                        PhaseLog* log) {
  for (int i = 0; i < static_cast<int>(part.phases.size()); ++i) {
    const auto begin = PhaseLog::Clock::now();
    const OwnPhase& phase = part.phases[static_cast<std::size_t>(i)];
    for (const plan::Parcel& parcel : phase.kept) contents.keep(i, parcel);
    const auto size = static_cast<std::size_t>(group.size());
    std::vector<std::int64_t> sent(size, 0), got(size, 0);
    std::vector<at::Tensor> out(size), in(size);
    for (const OwnMessage& m : phase.sends) {
      out[static_cast<std::size_t>(m.peer)] = contents.to_send(i, m).reshape({-1});
      sent[static_cast<std::size_t>(m.peer)] = out[static_cast<std::size_t>(m.peer)].numel();
    }
    for (const OwnMessage& m : phase.receives) {
      in[static_cast<std::size_t>(m.peer)] = contents.to_receive(i, m).reshape({-1});
      got[static_cast<std::size_t>(m.peer)] = in[static_cast<std::size_t>(m.peer)].numel();
    }
    std::vector<at::Tensor> parts{at::empty({0}, at::TensorOptions(at::kByte).device(group.device))};
    for (const at::Tensor& bytes : out)
      if (bytes.defined()) parts.push_back(bytes);
    const at::Tensor all =
        all_to_all_rows(group, at::cat(parts), sent, got, in_phase(operation, part.pattern, phase.name));
    std::int64_t offset = 0;
    for (std::size_t peer = 0; peer < size; ++peer) {
      if (got[peer] > 0) in[peer].copy_(all.narrow(0, offset, got[peer]));
      offset += got[peer];
    }
    for (const OwnMessage& m : phase.receives) contents.received(i, m, in[static_cast<std::size_t>(m.peer)]);
    if (log != nullptr) log->add(phase.name, begin, PhaseLog::Clock::now());
  }
}

}  // namespace

std::string in_phase(const std::string& operation, const std::string& pattern, const std::string& phase) {
  return fmt::format("{}, {} phase {}", operation, pattern, phase);
}

OwnPart own_part(const plan::Pattern& pattern, int member) {
  OwnPart part{.pattern = pattern.name, .flow = pattern.flow, .size = pattern.size};
  for (const plan::Phase& phase : pattern.phases) {
    OwnPhase own{.name = phase.name, .after = phase.after, .in_flight = phase.in_flight};
    for (const plan::Transfer& t : phase.transfers) {
      if (t.from == member && t.to == member)
        own.kept.insert(own.kept.end(), t.parcels.begin(), t.parcels.end());
      else if (t.from == member)
        own.sends.push_back({static_cast<int>(own.sends.size()), t.to, t.parcels});
      else if (t.to == member)
        own.receives.push_back({static_cast<int>(own.receives.size()), t.from, t.parcels});
    }
    for (const int before : phase.after) part.phases[static_cast<std::size_t>(before)].awaited = true;
    part.phases.push_back(std::move(own));
  }
  return part;
}

void run_messages(Group& group, const OwnPart& part, MessageContents& contents, const std::string& operation,
                  PhaseLog* log) {
  TRIREME_CHECK(part.size == group.size(), "{} of {} members on {}", part.pattern, part.size, group.describe());
  if (group.issue_order != nullptr) group.issue_order->record("all_to_all " + part.pattern, operation);
  if (!group.device.is_cpu()) return run_by_collectives(group, part, contents, operation, log);
  PairwiseRun messages(group, part, contents, operation);
  messages.run();
  if (log != nullptr) messages.write(*log);
}

}  // namespace trireme::comm
