#include "execution.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>
#include <string>

#include "base/errors.h"

namespace trireme::simgrid_bench {
namespace {

namespace sg = simgrid::s4u;

struct Message {
  int peer = 0;
  std::uint64_t bytes = 0;
};

struct OwnPhase {
  std::vector<Message> sends, receives;
  std::size_t sent = 0, received = 0;
  std::deque<sg::CommPtr> sending, receiving;  // null: a message without rows
  bool started = false, arrived = false;
};

class Run {
 public:
  Run(const plan::Pattern& pattern, const std::vector<sg::Host*>& hosts, const plan::RowCounts& counts,
      double row_bytes, double message_s)
      : pattern_(pattern),
        hosts_(hosts),
        message_s_(message_s),
        members_(hosts.size(), Phases(pattern.phases.size())),
        awaited_(pattern.phases.size(), false) {
    for (std::size_t i = 0; i < pattern.phases.size(); ++i) {
      const plan::Phase& phase = pattern.phases[i];
      for (const int before : phase.after) awaited_[static_cast<std::size_t>(before)] = true;
      for (const plan::Transfer& t : phase.transfers) {
        if (t.from == t.to) continue;
        double rows = 0;
        for (const plan::Parcel& parcel : t.parcels) rows += plan::rows_of(parcel, pattern.flow, counts);
        const auto bytes = static_cast<std::uint64_t>(std::llround(rows * row_bytes));
        if (bytes == 0 && phase.in_flight == 0) continue;
        if (bytes > 0) ++messages;
        own(t.from, i).sends.push_back({t.to, bytes});
        own(t.to, i).receives.push_back({t.from, bytes});
      }
    }
  }

  double run() {
    const double begin = sg::Engine::get_clock();
    std::vector<sg::ActorPtr> actors;
    for (std::size_t m = 0; m < members_.size(); ++m)
      actors.push_back(sg::Actor::create("member", hosts_[m], [this, m] { member(static_cast<int>(m)); }));
    for (const sg::ActorPtr& actor : actors) actor->join();
    return sg::Engine::get_clock() - begin;
  }

  long messages = 0;

 private:
  using Phases = std::vector<OwnPhase>;

  OwnPhase& own(int member, std::size_t phase) { return members_[static_cast<std::size_t>(member)][phase]; }

  sg::Mailbox* box(int from, int to, std::size_t phase) {
    return sg::Mailbox::by_name(std::to_string(from) + ">" + std::to_string(to) + ":" + std::to_string(phase));
  }

  // As comm's run_messages: what others wait for comes first.
  void member(int me) {
    Phases& phases = members_[static_cast<std::size_t>(me)];
    start_ready(me);
    for (std::size_t finished = 0; finished < phases.size(); ++finished) {
      std::size_t next = phases.size();
      for (std::size_t i = 0; i < phases.size(); ++i) {
        if (!phases[i].started || phases[i].arrived) continue;
        if (next == phases.size() || (awaited_[i] && !awaited_[next])) next = i;
      }
      take_in(me, next);
      phases[next].arrived = true;
      start_ready(me);
    }
    for (OwnPhase& phase : phases)
      for (const sg::CommPtr& comm : phase.sending)
        if (comm) comm->wait();
    phases.clear();
  }

  void start_ready(int me) {
    Phases& phases = members_[static_cast<std::size_t>(me)];
    for (const bool awaited : {true, false})
      for (std::size_t i = 0; i < phases.size(); ++i) {
        if (phases[i].started || awaited_[i] != awaited) continue;
        const auto& after = pattern_.phases[i].after;
        if (!std::all_of(after.begin(), after.end(),
                         [&](int b) { return phases[static_cast<std::size_t>(b)].arrived; }))
          continue;
        phases[i].started = true;
        post(me, i);
      }
  }

  void post(int me, std::size_t i) {
    OwnPhase& p = own(me, i);
    const auto bound = static_cast<std::size_t>(pattern_.phases[i].in_flight);
    while (true) {
      const bool receive = p.received < p.receives.size() && (bound == 0 || p.receiving.size() < bound);
      const bool send = p.sent < p.sends.size() && (bound == 0 || p.sending.size() < bound);
      if (!receive && !send) return;
      const bool get = receive && p.receives[p.received].bytes > 0, put = send && p.sends[p.sent].bytes > 0;
      const double work = (get ? message_s_ / 2 : 0) + (put ? message_s_ / 2 : 0);
      if (work > 0) sg::this_actor::sleep_for(work);
      if (receive) {
        const Message& message = p.receives[p.received++];
        p.receiving.push_back(get ? box(message.peer, me, i)->get_async<char>(&nothing_) : nullptr);
      }
      if (send) {
        const Message& message = p.sends[p.sent++];
        p.sending.push_back(put ? box(me, message.peer, i)->put_async(&something_, message.bytes) : nullptr);
      }
    }
  }

  void take_in(int me, std::size_t i) {
    OwnPhase& p = own(me, i);
    const bool bounded = pattern_.phases[i].in_flight > 0;
    const auto wait = [](std::deque<sg::CommPtr>& queue) {
      if (queue.empty()) return;
      if (queue.front()) queue.front()->wait();
      queue.pop_front();
    };
    while (!p.receiving.empty() || (bounded && !p.sending.empty())) {
      wait(p.receiving);
      // Steps of a bounded phase go in pairs, a send and a receive.
      if (bounded) {
        wait(p.sending);
        post(me, i);
      }
    }
  }

  const plan::Pattern& pattern_;
  const std::vector<sg::Host*>& hosts_;
  double message_s_;
  std::vector<Phases> members_;
  std::vector<bool> awaited_;  // by phase
  char something_ = 0;
  char* nothing_ = nullptr;
};

}  // namespace

Execution execute(const plan::Pattern& pattern, const std::vector<sg::Host*>& hosts, const plan::RowCounts& counts,
                  double row_bytes, double message_s) {
  TRIREME_CHECK(static_cast<std::size_t>(pattern.size) == hosts.size());
  Run run(pattern, hosts, counts, row_bytes, message_s);
  const double seconds = run.run();
  return {seconds, run.messages};
}

}  // namespace trireme::simgrid_bench
