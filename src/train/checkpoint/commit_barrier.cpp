#include "train/checkpoint/commit_barrier.h"

#include <atomic>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/errors.h"
#include "comm/error_text.h"

namespace trireme::train {
namespace {

constexpr auto poll_interval = std::chrono::milliseconds(20);

[[noreturn]] void fail(const std::string& key, const std::string& reason, int rank = -1) {
  throw RuntimeFailure({.rank = rank, .operation = "checkpoint " + key, .reason = reason});
}

}  // namespace

InProcessCommitBarrier::InProcessCommitBarrier(int num_ranks, std::chrono::milliseconds timeout)
    : num_ranks_(num_ranks), timeout_(timeout) {}

Agreed InProcessCommitBarrier::arrive(const std::string& key, int rank, const std::string& error) {
  std::unique_lock lock(mutex_);
  Meeting& meeting = meetings_[key];  // stays in place: ranks may still read it when the next key is met
  if (!error.empty()) meeting.agreed = {.rank = rank, .error = error};
  ++meeting.arrived;
  changed_.notify_all();
  const bool complete = changed_.wait_for(lock, timeout_, [&] { return cancelled_ || meeting.arrived >= num_ranks_; });
  if (meeting.arrived >= num_ranks_) return meeting.agreed;
  fail(key, complete ? "cancelled" : fmt::format("{} of {} ranks arrived in time", meeting.arrived, num_ranks_));
}

void InProcessCommitBarrier::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  changed_.notify_all();
}

struct StoreCommitBarrier::State {
  c10::intrusive_ptr<c10d::Store> store;
  int num_ranks;
  std::chrono::milliseconds timeout;
  std::function<std::string()> in_vain;
  std::string prefix;
  std::atomic<bool> cancelled{false};
};

StoreCommitBarrier::StoreCommitBarrier(c10::intrusive_ptr<c10d::Store> store, int num_ranks,
                                       std::chrono::milliseconds timeout, std::function<std::string()> in_vain,
                                       std::string prefix)
    : state_(new State{.store = std::move(store),
                       .num_ranks = num_ranks,
                       .timeout = timeout,
                       .in_vain = std::move(in_vain),
                       .prefix = std::move(prefix)}) {}

StoreCommitBarrier::~StoreCommitBarrier() = default;

Agreed StoreCommitBarrier::arrive(const std::string& key, int rank, const std::string& error) {
  c10d::Store& store = *state_->store;
  const auto name = [&](const std::string& what) { return fmt::format("{}/{}/{}", state_->prefix, key, what); };
  const auto rank_key = [&](int r) { return name(fmt::format("rank-{}", r)); };
  try {
    // The error is there before the count, so whoever sees the full count sees it.
    if (!error.empty()) store.set(name("error"), nlohmann::json{{"rank", rank}, {"error", error}}.dump());
    store.set(rank_key(rank), std::string("1"));
    const auto deadline = std::chrono::steady_clock::now() + state_->timeout;
    for (std::int64_t arrived = store.add(name("arrived"), 1); arrived < state_->num_ranks;
         arrived = store.add(name("arrived"), 0)) {
      if (state_->cancelled) fail(key, "cancelled");
      if (state_->in_vain)
        if (const std::string why = state_->in_vain(); !why.empty()) fail(key, why);
      if (std::chrono::steady_clock::now() > deadline) {
        std::vector<int> missing;
        for (int r = 0; r < state_->num_ranks; ++r) {
          if (!store.check({rank_key(r)})) missing.push_back(r);
        }
        fail(key, fmt::format("did not arrive in {} ms: {}", state_->timeout.count(), fmt::join(missing, ", ")),
             missing.empty() ? -1 : missing.front());
      }
      std::this_thread::sleep_for(poll_interval);
    }
    if (!store.check({name("error")})) return {};
    const auto j = nlohmann::json::parse(store.get_to_str(name("error")));
    return {.rank = j.at("rank").get<int>(), .error = j.at("error").get<std::string>()};
  } catch (const RuntimeFailure&) {
    throw;
  } catch (const std::exception& e) {
    // Whoever served it has probably died, which the heartbeats find out within a beat or two.
    std::string why;
    for (int i = 0; i < 100 && state_->in_vain && why.empty(); ++i) {
      why = state_->in_vain();
      if (why.empty()) std::this_thread::sleep_for(poll_interval);
    }
    fail(key, why.empty() ? fmt::format("the store failed: {}", comm::error_text(e)) : why);
  }
}

void StoreCommitBarrier::cancel() {
  state_->cancelled = true;
}

}  // namespace trireme::train
