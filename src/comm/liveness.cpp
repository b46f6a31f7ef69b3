#include "comm/liveness.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/error_text.h"

namespace trireme::comm {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A beat adds 1 to a rank's counter; finishing adds this, so that one number says both.
constexpr std::int64_t finished = std::int64_t{1} << 40;
// A rank watches this many ranks after itself. One would do (a living rank precedes every row of dead ones); some more
// keep the news quick when neighbours die together. All ranks watching all would cost the store world^2 reads a beat.
constexpr int num_watched = 8;

std::string beat_key(const std::string& prefix, int rank) {
  return fmt::format("{}/beat/{}", prefix, rank);
}
std::string verdict_key(const std::string& prefix) {
  return prefix + "/dead";
}
std::string teller_key(const std::string& prefix) {
  return prefix + "/teller";
}
std::string asked_key(const std::string& prefix) {
  return prefix + "/asked";
}
std::string suspicion_key(const std::string& prefix) {
  return prefix + "/suspicion";
}

// The first to write wins; returns what is there then.
DeadRank write_verdict(c10d::Store& store, const std::string& prefix, const DeadRank& dead) {
  const std::string mine = nlohmann::json{{"rank", dead.rank}, {"reason", dead.reason}}.dump();
  const std::string theirs = store.compareSet(verdict_key(prefix), std::string(), mine);
  const auto j = nlohmann::json::parse(theirs.empty() ? mine : theirs);
  return {.rank = j.at("rank").get<int>(), .reason = j.at("reason").get<std::string>()};
}

std::optional<DeadRank> read_verdict(c10d::Store& store, const std::string& prefix) {
  if (!store.check({verdict_key(prefix)})) return std::nullopt;
  const auto j = nlohmann::json::parse(store.get_to_str(verdict_key(prefix)));
  return DeadRank{.rank = j.at("rank").get<int>(), .reason = j.at("reason").get<std::string>()};
}

DeadRank store_lost(int server, const std::string& error) {
  if (server < 0)
    return {.reason = "the launcher's store no longer answers, the launcher has probably ended (" + error + ")"};
  return {.rank = server,
          .reason = "the store that it serves no longer answers, it has probably ended (" + error + ")"};
}

struct Watched {
  int rank = 0;
  std::int64_t count = 0;
  Clock::time_point changed;  // by this rank's own clock: no two clocks are compared
  bool finished = false;
};

}  // namespace

struct Liveness::State {
  Options options;
  std::function<void(const DeadRank&)> on_death;
  c10::intrusive_ptr<c10d::Store> store;

  // Guards the store connection too, which is used by the watching thread and by finish() and fail().
  mutable std::mutex mutex;
  mutable std::condition_variable changed;
  std::optional<DeadRank> dead;
  mutable bool suspicious = false;      // told by a failed operation on this rank
  mutable bool suspicion_told = false;  // and the others know
  bool first_hand = false;              // knows of the death by its own operation, or is itself what failed
  bool stop = false;
  bool done = false;
  std::vector<Watched> watched;
  std::thread thread;

  void beat(bool& others_suspicious);
  void run(milliseconds suspicion);
};

// One round: beat, look for a verdict, judge the watched. Called with the mutex held.
void Liveness::State::beat(bool& others_suspicious) {
  store->add(beat_key(options.prefix, options.rank), 1);
  if (suspicious && !suspicion_told) {
    store->add(suspicion_key(options.prefix), 1);
    suspicion_told = true;
  }
  others_suspicious = store->add(suspicion_key(options.prefix), 0) > 0;
  dead = read_verdict(*store, options.prefix);
  for (Watched& w : watched) {
    if (w.finished) continue;
    const auto count = store->add(beat_key(options.prefix, w.rank), 0);
    if (count != w.count) {
      w.count = count;
      w.changed = Clock::now();
      w.finished = count >= finished;
    }
  }
}

void Liveness::State::run(milliseconds suspicion) {
  std::unique_lock<std::mutex> lock(mutex);
  auto next = Clock::now();
  while (!stop && !dead) {
    try {
      bool others_suspicious = false;
      const auto before = Clock::now();
      beat(others_suspicious);
      const auto limit = others_suspicious ? suspicion : options.timeout;
      // A rank that was itself asleep (stopped, swapped out) has read counts that are only now fresh: it waits a round
      // before it judges.
      const bool awake = before - next < 2 * options.interval + suspicion / 2;
      for (const Watched& w : watched) {
        const auto silence = Clock::now() - w.changed;
        if (dead || w.finished || !awake || silence < limit) continue;
        const double seconds = std::chrono::duration<double>(silence).count();
        dead = write_verdict(*store, options.prefix,
                             {.rank = w.rank,
                              .reason = w.count == 0 ? fmt::format("no heartbeat at all in {:.1f} s", seconds)
                                                     : fmt::format("no heartbeat for {:.1f} s", seconds)});
      }
    } catch (const std::exception& error) {
      dead = store_lost(options.server, error_text(error));
    }
    if (dead) break;
    next = Clock::now() + options.interval;
    changed.wait_until(lock, next, [&] { return stop || (suspicious && !suspicion_told); });
  }
  changed.notify_all();
  if (!dead || stop || done) return;
  const DeadRank found = *dead;
  lock.unlock();
  if (on_death) on_death(found);
}

Liveness::Liveness(c10::intrusive_ptr<c10d::Store> store, Options options,
                   std::function<void(const DeadRank&)> on_death)
    : state_(std::make_unique<State>()) {
  state_->options = std::move(options);
  state_->on_death = std::move(on_death);
  state_->store = store->clone();  // a client of its own: a blocking wait of another thread would silence this rank
  const auto now = Clock::now();
  const Options& o = state_->options;
  for (int i = 1; i <= std::min(num_watched, o.world - 1); ++i)
    state_->watched.push_back({.rank = (o.rank + i) % o.world, .changed = now});
  state_->thread = std::thread([state = state_.get(), limit = suspicion()] { state->run(limit); });
}

Liveness::~Liveness() {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

void Liveness::finish() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->done) return;
  state_->done = state_->stop = true;
  state_->changed.notify_all();
  try {
    state_->store->add(beat_key(state_->options.prefix, state_->options.rank), finished);
  } catch (const std::exception&) {
    // The store is gone, and with it everybody who could have asked.
  }
}

void Liveness::fail(const std::string& reason, int at_fault) {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  if (state_->dead) return;
  try {
    state_->dead =
        write_verdict(*state_->store, state_->options.prefix,
                      {.rank = at_fault >= 0 ? at_fault : state_->options.rank, .reason = "failed: " + reason});
    state_->first_hand = state_->first_hand || state_->dead->rank == state_->options.rank;
  } catch (const std::exception&) {
    // Nobody left to tell.
  }
  state_->changed.notify_all();
}

void Liveness::note_first_hand() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->first_hand = true;
}

bool Liveness::tells() {
  const State& s = *state_;
  const auto end = Clock::now() + milliseconds(500);
  while (true) {
    {
      const std::lock_guard<std::mutex> lock(s.mutex);
      try {
        const bool taken = s.store->add(teller_key(s.options.prefix), 0) > 0;
        const bool mine =
            !taken && (s.first_hand || Clock::now() > end) && s.store->add(teller_key(s.options.prefix), 1) == 1;
        if (mine || taken) {
          s.store->add(asked_key(s.options.prefix), 1);
          return mine;
        }
      } catch (const std::exception&) {
        return true;
      }
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
}

void Liveness::wait_until_told(milliseconds limit) const {
  const State& s = *state_;
  const auto end = Clock::now() + limit;
  while (Clock::now() < end) {
    {
      const std::lock_guard<std::mutex> lock(s.mutex);
      // A rank that failed by itself asks too; one that was killed does not.
      const bool all = s.dead && s.dead->reason.starts_with("failed: ");
      try {
        if (s.store->add(asked_key(s.options.prefix), 0) >= s.options.world - (all ? 0 : 1)) return;
      } catch (const std::exception&) {
        return;
      }
    }
    std::this_thread::sleep_for(milliseconds(20));
  }
}

std::optional<DeadRank> Liveness::dead() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->dead;
}

std::string Liveness::in_vain() const {
  const auto found = dead();
  if (!found) return {};
  return found->rank >= 0 ? fmt::format("rank {}: {}", found->rank, found->reason) : found->reason;
}

std::optional<DeadRank> Liveness::wait_for_verdict(milliseconds limit) const {
  std::unique_lock<std::mutex> lock(state_->mutex);
  state_->suspicious = true;
  state_->changed.notify_all();
  state_->changed.wait_for(lock, limit, [&] { return state_->dead.has_value() || state_->stop; });
  return state_->dead;
}

milliseconds Liveness::suspicion() const {
  return std::min(state_->options.timeout, std::max(milliseconds(2000), 5 * state_->options.interval));
}

milliseconds Liveness::patience() const {
  return suspicion() + suspicion() / 2 + 4 * state_->options.interval;
}

void Liveness::wait_for_others(milliseconds limit) {
  const auto end = Clock::now() + limit;
  for (int rank = 0; rank < state_->options.world; ++rank) {
    while (rank != state_->options.rank && Clock::now() < end) {
      {
        const std::lock_guard<std::mutex> lock(state_->mutex);
        try {
          if (state_->store->add(beat_key(state_->options.prefix, rank), 0) >= finished) break;
          if (read_verdict(*state_->store, state_->options.prefix)) return;
        } catch (const std::exception&) {
          return;
        }
      }
      std::this_thread::sleep_for(std::min<milliseconds>(state_->options.interval, milliseconds(50)));
    }
  }
}

void Liveness::report_death(c10d::Store& store, int rank, const std::string& reason, const std::string& prefix) {
  write_verdict(store, prefix, {.rank = rank, .reason = reason});
}

std::optional<DeadRank> Liveness::verdict(c10d::Store& store, const std::string& prefix) {
  return read_verdict(store, prefix);
}

}  // namespace trireme::comm
