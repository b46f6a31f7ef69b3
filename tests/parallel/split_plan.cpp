#include "parallel/split_plan.h"

#include <algorithm>
#include <map>
#include <vector>

namespace trireme::testing {

using plan::Action;
using plan::ActionKind;
using plan::BufferKind;

namespace {

// One stage's list anew. Ids are places in it, so what waits is translated as the list grows.
class Splitter {
 public:
  Splitter(plan::StagePlan& stage, SplitAt at) : stage_(stage), at_(at) {}

  void run() {
    const std::vector<Action> old = std::move(stage_.actions);
    stage_.actions.clear();
    for (std::size_t i = 0; i < old.size(); ++i) {
      Action action = old[i];
      if (action.kind != ActionKind::backward) {
        const bool of_weights = action.kind == ActionKind::reduce || action.kind == ActionKind::reduce_embedding;
        if (of_weights)
          for (const int id : action.waits)
            if (pending_.contains(id)) flush();
        add(std::move(action), of_weights);
        continue;
      }
      action.kind = ActionKind::input_gradient;
      Action weights{.id = action.id,
                     .kind = ActionKind::weight_gradient,
                     .pass = plan::Pass::backward,
                     .segment = action.segment,
                     .mb = action.mb,
                     .chunk = action.chunk,
                     .layer = action.layer};
      const bool has_weights = action.segment != model::Segment::combine;
      if (has_weights) {
        const int buffer = static_cast<int>(stage_.buffers.size());
        stage_.buffers.push_back({.kind = BufferKind::weight_work,
                                  .segment = action.segment,
                                  .mb = action.mb,
                                  .chunk = action.chunk,
                                  .layer = action.layer});
        action.allocates.push_back(buffer);
        weights.reads = weights.frees = {buffer};
      }
      const int mb = action.mb;
      add(std::move(action), false);
      if (has_weights) pending_[weights.id] = weights;
      const auto next = std::find_if(old.begin() + static_cast<std::ptrdiff_t>(i) + 1, old.end(),
                                     [](const Action& a) { return a.lane == plan::Lane::compute; });
      const bool last_of_mb = next == old.end() || next->kind != ActionKind::backward || next->mb != mb;
      if (at_ == SplitAt::once || last_of_mb) flush();
    }
  }

 private:
  void add(Action action, bool waits_for_weights) {
    const int old_id = action.id;
    action.id = static_cast<int>(stage_.actions.size());
    for (int& id : action.waits)
      id = waits_for_weights && weights_of_.contains(id) ? weights_of_.at(id) : place_of_.at(id);
    if (action.kind == ActionKind::weight_gradient)
      weights_of_[old_id] = action.id;
    else
      place_of_[old_id] = action.id;
    stage_.actions.push_back(std::move(action));
  }
  // In the order of their input gradients. (Ids ascend.)
  void flush() {
    for (auto& [id, weights] : pending_) add(weights, true);
    pending_.clear();
  }

  plan::StagePlan& stage_;
  SplitAt at_;
  std::map<int, int> place_of_, weights_of_;  // by the old id
  std::map<int, Action> pending_;
};

}  // namespace

void split_backwards(plan::Plan& plan, SplitAt at) {
  for (plan::StagePlan& stage : plan.stages) Splitter(stage, at).run();
}

}  // namespace trireme::testing
