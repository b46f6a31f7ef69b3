// A plan with one compute action a slot, for tests: what a schedule costs when every slot has a known price.
#pragma once
#include <map>

#include "plan/pipeline/schedule.h"
#include "plan/plan.h"

namespace trireme::sim {

struct SlotPlan {
  plan::Plan plan;
  plan::Costs costs;
};

// Forward slots take f seconds, backward slots b, messages m; each micro-batch's saved buffer holds `saved` bytes.
inline SlotPlan slot_plan(const plan::Schedule& schedule, double f, double b, double m, double saved = 1, int dp = 1) {
  using namespace plan;
  SlotPlan out{.plan = {.mesh = {.pp = schedule.num_stages, .dp = dp}, .schedule = schedule,
                        .num_micro_batches = schedule.num_micro_batches}};
  for (int s = 0; s < schedule.num_stages; ++s) {
    StagePlan stage{.chunks = {{.first_layer = s, .num_layers = 1, .embed = s == 0, .head = s + 1 == schedule.num_stages}}};
    StageCosts costs;
    std::map<int, int> saved_of;
    const auto add = [&](Action a, double seconds) {
      a.id = static_cast<int>(stage.actions.size());
      stage.actions.push_back(a);
      costs.action_s.push_back(seconds);
      costs.action_workspace_bytes.push_back(0);
      return a.id;
    };
    for (const Slot& slot : schedule.rows[s]) {
      const bool forward = slot.kind == SlotKind::forward;
      const bool comes = forward ? s > 0 : s + 1 < schedule.num_stages;
      const bool goes = forward ? s + 1 < schedule.num_stages : s > 0;
      Action message{.pass = forward ? Pass::forward : Pass::backward, .mb = slot.mb};
      Action compute{.kind = forward ? ActionKind::forward : ActionKind::backward, .pass = message.pass,
                     .segment = Segment::mlp, .mb = slot.mb};
      if (comes) {
        message.kind = ActionKind::receive;
        message.lane = forward ? Lane::forward_receive : Lane::backward_receive;
        message.peer_stage = forward ? s - 1 : s + 1;
        compute.waits = {add(message, m)};
      }
      if (forward) {
        saved_of[slot.mb] = static_cast<int>(stage.buffers.size());
        stage.buffers.push_back({.kind = BufferKind::saved, .segment = Segment::mlp, .mb = slot.mb});
        costs.buffer_bytes.push_back(saved);
        compute.allocates = {saved_of[slot.mb]};
      } else {
        compute.frees = {saved_of[slot.mb]};
      }
      const int id = add(compute, forward ? f : b);
      if (goes) {
        message.kind = ActionKind::send;
        message.lane = forward ? Lane::forward_send : Lane::backward_send;
        message.peer_stage = forward ? s + 1 : s - 1;
        message.waits = {id};
        add(message, m);
      }
    }
    out.plan.stages.push_back(std::move(stage));
    out.costs.stages.push_back(std::move(costs));
  }
  return out;
}

}  // namespace trireme::sim
