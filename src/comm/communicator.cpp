#include <array>
#include <mutex>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "base/errors.h"
#include "comm/backend.h"
#include "comm/error_text.h"
#include "comm/group.h"
#include "comm/issue_order.h"
#include "comm/liveness.h"
#include "comm/rank_hosts.h"

namespace trireme::comm {
namespace {

class BackendGroup final : public Group {
 public:
  BackendGroup(const plan::GroupKind& of, std::vector<int> members, int global_rank, Liveness* liveness)
      : kind(of), members_(std::move(members)), liveness_(liveness) {
    axis = plan::name_of(kind);
    rank_ = static_cast<int>(std::find(members_.begin(), members_.end(), global_rank) - members_.begin());
    TRIREME_CHECK(rank_ < size(), "rank {} is not in its own group of {}", global_rank, axis);
  }

  int rank() const override { return rank_; }
  const std::vector<int>& members() const override { return members_; }
  std::string describe() const override { return fmt::format("{} {{{}}}", axis, fmt::join(members_, ",")); }
  c10d::Backend* backend() override { return backend_.get(); }

  void fail(const std::string& operation, int peer, const std::string& reason) override {
    RuntimeFailure::Detail detail{.operation = operation, .group = describe(), .reason = reason};
    if (peer >= 0) detail.rank = members_[static_cast<std::size_t>(peer)];
    if (liveness_ != nullptr) {
      // c10d says who waited for whom, not who died first: that is for the heartbeats to say.
      if (const auto dead = liveness_->wait_for_verdict(liveness_->patience())) {
        const bool ours = peer >= 0 ? members_[static_cast<std::size_t>(peer)] == dead->rank
                                    : std::find(members_.begin(), members_.end(), dead->rank) != members_.end();
        if (ours) liveness_->note_first_hand();
        detail.rank = dead->rank;
        detail.reason = fmt::format("{} (seen here as: {})", dead->reason, reason);
      }
    }
    throw RuntimeFailure(std::move(detail));
  }

  const plan::GroupKind kind;
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::unique_ptr<IssueOrder> order_;

 private:
  int rank_ = 0;
  std::vector<int> members_;
  Liveness* liveness_;
};

}  // namespace

struct Communicator::State {
  c10::intrusive_ptr<c10d::Store> store;
  CommunicatorOptions options;
  std::string root;  // of store keys
  std::unique_ptr<BackendMaker> maker;
  std::vector<std::string> hosts;  // by rank
  std::mutex growing;              // connect() beside abort(), which another thread may call
  std::vector<std::unique_ptr<BackendGroup>> groups;  // in the order of creation, equal on every rank

  BackendGroup* find(const plan::GroupKind& kind) {
    for (const auto& group : groups)
      if (group->kind == kind) return group.get();
    return nullptr;
  }

  BackendGroup& add(const plan::GroupKind& kind) {
    auto group =
        std::make_unique<BackendGroup>(kind, options.mesh.group(kind, options.rank), options.rank, options.liveness);
    group->device = options.device;
    const std::lock_guard lock(growing);
    return *groups.emplace_back(std::move(group));
  }

  void connect(BackendGroup& group) {
    if (group.size() == 1) return;
    auto group_store = c10::make_intrusive<c10d::PrefixStore>(
        fmt::format("{}/{}/{}", root, group.axis, group.members().front()), store);
    auto backend = maker->make(group_store, group.rank(), group.size());
    if (options.record_issue_order) {
      group.order_ = std::make_unique<IssueOrder>(group_store, "issue_order");
      group.issue_order = group.order_.get();
    }
    const std::lock_guard lock(growing);
    group.backend_ = std::move(backend);
  }

  // Runs what may fail to connect: for all that is no ConfigError, `group` fails.
  template <class Body>
  void connecting(Group*& group, std::string& doing, const Body& body) {
    try {
      body();
    } catch (const ConfigError&) {
      throw;
    } catch (const std::exception& error) {
      group->fail(doing, -1, error_text(error));
    }
  }
};

Communicator::Communicator(c10::intrusive_ptr<c10d::Store> store, const CommunicatorOptions& options)
    : state_(std::make_unique<State>()) {
  const plan::Mesh& mesh = options.mesh;
  TRIREME_CHECK(options.rank >= 0 && options.rank < mesh.world(), "rank {} of {}", options.rank, mesh.world());
  state_->store = store;
  state_->options = options;
  state_->root = options.prefix.empty() ? "comm" : options.prefix + "/comm";
  const std::array<plan::GroupKind, 5> wanted{plan::world_group, Axis::dp, Axis::ep, Axis::edp, plan::embedding_group};
  for (const plan::GroupKind& kind : wanted) state_->add(kind);
  state_->hosts.assign(1, host_identity());
  if (mesh.world() == 1) return;

  std::string doing = "meet at the store";
  Group* at = state_->groups.front().get();
  state_->connecting(at, doing, [&] {
    {
      c10d::StoreTimeoutGuard guard(*store, options.timeout);
      state_->hosts = rank_hosts(store, options.rank, mesh.world(), state_->root);
    }
    if (options.device.is_cpu()) {
      state_->maker = make_gloo(choose_network(options.interface, state_->hosts, options.master_address), options.timeout);
    } else {
      state_->maker = make_nccl(options.device, options.timeout);
    }
    doing = "connect";
    for (const auto& group : state_->groups) {
      at = group.get();
      state_->connect(*group);
    }
  });
}

void Communicator::connect(const std::vector<plan::GroupKind>& kinds) {
  std::string doing = "connect";
  for (const plan::GroupKind& kind : kinds) {
    if (state_->find(kind) != nullptr) continue;
    if (const auto& o = state_->options; o.mesh.group(kind, o.rank).size() == 1) continue;  // of other ranks
    BackendGroup& group = state_->add(kind);
    Group* at = &group;
    state_->connecting(at, doing, [&] { state_->connect(group); });
  }
}

Communicator::~Communicator() = default;

Group& Communicator::group(const plan::GroupKind& kind) {
  Group* const found = state_->find(kind);
  TRIREME_CHECK(found != nullptr, "no group {} was connected", plan::name_of(kind));
  return *found;
}
plan::NodeShape Communicator::node_shape(const Group& group) const {
  std::vector<std::string> hosts;
  for (const int rank : group.members()) hosts.push_back(state_->hosts.at(static_cast<std::size_t>(rank)));
  return plan::NodeShape::of_hosts(hosts);
}

void Communicator::abort() {
  const std::lock_guard lock(state_->growing);
  for (const auto& group : state_->groups)
    if (group->backend_) state_->maker->abort(*group->backend_);
}

}  // namespace trireme::comm
