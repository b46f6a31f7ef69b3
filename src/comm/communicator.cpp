#include <array>

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
  BackendGroup(std::string name, std::vector<int> members, int global_rank, Liveness* liveness)
      : members_(std::move(members)), liveness_(liveness) {
    axis = std::move(name);
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

  c10::intrusive_ptr<c10d::Backend> backend_;
  std::unique_ptr<IssueOrder> order_;

 private:
  int rank_ = 0;
  std::vector<int> members_;
  Liveness* liveness_;
};

}  // namespace

struct Communicator::State {
  std::unique_ptr<BackendMaker> maker;
  std::vector<std::string> hosts;  // by rank
  std::vector<std::unique_ptr<BackendGroup>> groups;  // in the order of creation, equal on every rank

  Group& find(const std::string& name) {
    for (const auto& group : groups)
      if (group->axis == name) return *group;
    check_failed(__FILE__, __LINE__, "group exists", name);
  }
};

Communicator::Communicator(c10::intrusive_ptr<c10d::Store> store, const CommunicatorOptions& options)
    : state_(std::make_unique<State>()) {
  const plan::Mesh& mesh = options.mesh;
  TRIREME_CHECK(options.rank >= 0 && options.rank < mesh.world(), "rank {} of {}", options.rank, mesh.world());
  struct Wanted {
    std::string name;
    plan::GroupKind kind;
  };
  const std::array<Wanted, 7> wanted{{{"world", plan::world_group},
                                      {"pp_forward", Axis::pp},
                                      {"pp_backward", Axis::pp},
                                      {"dp", Axis::dp},
                                      {"ep", Axis::ep},
                                      {"edp", Axis::edp},
                                      {"embedding", plan::embedding_group}}};
  for (const Wanted& w : wanted) {
    auto group =
        std::make_unique<BackendGroup>(w.name, mesh.group(w.kind, options.rank), options.rank, options.liveness);
    group->device = options.device;
    state_->groups.push_back(std::move(group));
  }
  state_->hosts.assign(1, host_identity());
  if (mesh.world() == 1) return;

  const std::string root = options.prefix.empty() ? "comm" : options.prefix + "/comm";
  std::string doing = "meet at the store";
  Group* at = state_->groups.front().get();
  try {
    {
      c10d::StoreTimeoutGuard guard(*store, options.timeout);
      state_->hosts = rank_hosts(store, options.rank, mesh.world(), root);
    }
    if (options.device.is_cpu()) {
      state_->maker = make_gloo(choose_network(options.interface, state_->hosts, options.master_address), options.timeout);
    } else {
      state_->maker = make_nccl(options.device, options.timeout);
    }
    for (const auto& group : state_->groups) {
      if (group->size() == 1) continue;
      doing = "connect";
      at = group.get();
      auto group_store = c10::make_intrusive<c10d::PrefixStore>(
          fmt::format("{}/{}/{}", root, group->axis, group->members().front()), store);
      group->backend_ = state_->maker->make(group_store, group->rank(), group->size());
      if (options.record_issue_order) {
        group->order_ = std::make_unique<IssueOrder>(group_store, "issue_order");
        group->issue_order = group->order_.get();
      }
    }
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {
    at->fail(doing, -1, error_text(error));
  }
}

Communicator::~Communicator() = default;

Group& Communicator::group(const plan::GroupKind& kind) {
  return state_->find(plan::name_of(kind));
}
plan::NodeShape Communicator::node_shape(const Group& group) const {
  std::vector<std::string> hosts;
  for (const int rank : group.members()) hosts.push_back(state_->hosts.at(static_cast<std::size_t>(rank)));
  return plan::NodeShape::of_hosts(hosts);
}
Group& Communicator::pipeline_forward() {
  return state_->find("pp_forward");
}
Group& Communicator::pipeline_backward() {
  return state_->find("pp_backward");
}

void Communicator::abort() {
  for (const auto& group : state_->groups)
    if (group->backend_) state_->maker->abort(*group->backend_);
}

}  // namespace trireme::comm
