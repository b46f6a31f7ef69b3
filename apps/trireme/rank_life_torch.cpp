#include "trireme/rank_life.h"

#include <ATen/Parallel.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "base/errors.h"
#include "base/final_failure.h"
#include "base/log.h"
#include "comm/connect_store.h"
#include "comm/error_text.h"
#include "comm/exit_codes.h"
#include "comm/told_once.h"
#include "nn/counting_allocator.h"
#include "nn/out_of_memory.h"
#include "parallel/thread_policy.h"

namespace trireme::apps {

namespace {

int failure_code(const RuntimeFailure& error, const comm::LaunchEnv& env) {
  const bool is_final = dynamic_cast<const FinalFailure*>(&error) != nullptr;
  return is_final && env.source == comm::LaunchSource::trireme ? comm::exit_final_failure : exit_runtime_failure;
}

}  // namespace

int threads_of_rank(int asked, const comm::LaunchEnv& env, const Context& context) {
  if (asked > 0) return asked;
  // A launcher that sets OMP_NUM_THREADS means it: torchrun sets 1, a Slurm script its --cpus-per-task.
  if (const auto at = context.environment.find("OMP_NUM_THREADS"); at != context.environment.end())
    if (const int threads = std::atoi(at->second.c_str()); threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / std::max(1, env.local_world));
}

RankLife::RankLife(const comm::LaunchEnv& launched_as, std::chrono::milliseconds timeout, std::string operation)
    : env_(launched_as), timeout_(timeout), operation_(std::move(operation)) {
  set_up_log({.rank = env_.world > 1 ? env_.rank : -1});
  nn::install_counting_allocator();
  own_store_ = comm::connect_store(env_, timeout_, [](const std::string& text) { spdlog::info("{}", text); });
  if (env_.world > 1)
    liveness_ = std::make_unique<comm::Liveness>(
        own_store_,
        comm::Liveness::Options{.rank = env_.rank, .world = env_.world, .timeout = timeout_, .server = comm::server_of(env_)},
        [this](const comm::DeadRank&) {
          if (comm::Communicator* c = to_abort_.load()) c->abort();
        });
  store_ = comm::watched(own_store_, [this] { return in_vain(); });
}

RankLife::~RankLife() = default;

std::string RankLife::in_vain() const { return liveness_ ? liveness_->in_vain() : std::string(); }

void RankLife::find_local_ranks() {
  if (env_.rank == 0 && env_.world > 1 && !waiting_) waiting_.emplace(env_.world, timeout_);
  if (env_.local_known) return;
  c10d::StoreTimeoutGuard guard(*store_, timeout_);
  try {
    env_ = comm::with_local_ranks(env_, store_);
  } catch (const std::exception& error) {
    const auto dead = liveness_->wait_for_verdict(liveness_->patience());
    throw RuntimeFailure({.rank = dead ? dead->rank : -1, .operation = "meet at the store", .group = "world",
                          .reason = dead ? dead->reason : comm::error_text(error)});
  }
}

comm::Communicator& RankLife::meet(const plan::Mesh& mesh, const std::string& device, int threads) {
  find_local_ranks();
  if (env_.local_world > 1) parallel::use_batch_scheduling();
  at::set_num_threads(threads);
  communicator_ = std::make_unique<comm::Communicator>(
      store_, comm::CommunicatorOptions{
                  .rank = env_.rank, .mesh = mesh,
                  .device = device == "cpu" ? at::Device(at::kCPU) : at::Device(at::kCUDA, env_.local_rank),
                  .timeout = timeout_, .liveness = liveness_.get(), .interface = env_.interface,
                  .master_address = env_.master_addr});
  to_abort_ = communicator_.get();
  waiting_.reset();
  return *communicator_;
}

void RankLife::wait_until_told() {
  if (env_.serves_store) liveness_->wait_until_told(std::min(timeout_, liveness_->patience()));
}

int RankLife::run(const std::function<int()>& body) {
  int code = exit_ok;
  try {
    code = body();
  } catch (const ConfigError& error) {
    waiting_.reset();
    if (!liveness_) throw;
    liveness_->fail(error.what());
    const bool first = comm::first_to_tell(*own_store_, error.what());
    liveness_->tells();  // and nobody else
    wait_until_told();
    if (first) throw;
    return exit_bad_input;
  } catch (const RuntimeFailure& error) {
    waiting_.reset();
    if (!liveness_) throw;
    // One rank's death ends all: one of them says so. What failed in no group failed on the rank that it names.
    liveness_->fail(error.what(), error.detail().group.empty() ? error.detail().rank : -1);
    const bool tells = liveness_->tells();
    wait_until_told();
    if (tells) throw;
    return failure_code(error, env_);
  } catch (const std::exception& error) {
    waiting_.reset();
    const auto memory = nn::out_of_memory(error);
    if (liveness_) liveness_->fail(memory.value_or(comm::error_text(error)));
    if (memory) throw RuntimeFailure({.rank = env_.rank, .operation = operation_, .reason = *memory});
    throw;
  }
  to_abort_ = nullptr;
  if (liveness_) {
    liveness_->finish();
    if (env_.serves_store) liveness_->wait_for_others(timeout_);
  }
  return code;
}

}  // namespace trireme::apps
