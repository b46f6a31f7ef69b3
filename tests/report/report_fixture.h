// A plan of two stages and one micro-batch with round prices, and what a run of it might have measured.
#pragma once
#include "plan/pipeline/gpipe.h"
#include "plan/run_files.h"

namespace trireme::report {

inline plan::Plan small_plan() {
  using namespace plan;
  Plan p{.mesh = {.pp = 2, .dp = 1}, .schedule = gpipe(2, 1), .num_micro_batches = 1};
  StagePlan first{.chunks = {{.first_layer = 0, .num_layers = 1, .embed = true}},
                  .buffers = {{.kind = BufferKind::saved, .segment = Segment::attention, .mb = 0, .layer = 0}},
                  .buckets = {{.expert = true, .elements = 4}}};
  first.actions = {
      {.id = 0, .kind = ActionKind::forward, .segment = Segment::attention, .mb = 0, .layer = 0, .allocates = {0}},
      {.id = 1, .kind = ActionKind::send, .mb = 0, .lane = Lane::forward_send, .group = Axis::pp, .peer_stage = 1, .waits = {0}},
      {.id = 2, .kind = ActionKind::receive, .pass = Pass::backward, .mb = 0, .lane = Lane::backward_receive, .group = Axis::pp, .peer_stage = 1},
      {.id = 3, .kind = ActionKind::backward, .pass = Pass::backward, .segment = Segment::attention, .mb = 0, .layer = 0, .waits = {2}, .frees = {0}},
      {.id = 4, .kind = ActionKind::reduce, .pass = Pass::backward, .lane = Lane::dp, .group = Axis::edp, .bucket = 0, .waits = {3}},
      {.id = 5, .kind = ActionKind::optimizer, .waits = {4}}};
  StagePlan second{.chunks = {{.first_layer = 1, .num_layers = 1, .head = true}},
                   .buffers = {{.kind = BufferKind::saved, .segment = Segment::head, .mb = 0}}};
  second.actions = {
      {.id = 0, .kind = ActionKind::receive, .mb = 0, .lane = Lane::forward_receive, .group = Axis::pp, .peer_stage = 0},
      {.id = 1, .kind = ActionKind::forward, .segment = Segment::head, .mb = 0, .waits = {0}, .allocates = {0}},
      {.id = 2, .kind = ActionKind::backward, .pass = Pass::backward, .segment = Segment::head, .mb = 0, .frees = {0}},
      {.id = 3, .kind = ActionKind::send, .pass = Pass::backward, .mb = 0, .lane = Lane::backward_send, .group = Axis::pp, .peer_stage = 0, .waits = {2}}};
  p.stages = {first, second};
  return p;
}

// Step of 10 s: F 1, message 1, head F 1 and B 2, message 1, B 2, reduce 1, optimizer 1.
inline plan::Prediction small_prediction() {
  plan::Prediction p{.step_s = 10, .tokens_per_s = 100, .model_flops_per_step = 1e9, .peak_flops_per_s = 1e9, .platform = "invented"};
  p.ranks = {{.rank = 0, .spans = {{0, 1}, {1, 2}, {0, 6}, {6, 8}, {8, 9}, {9, 10}}, .step_s = 10, .peak_memory_bytes = 300},
             {.rank = 1, .spans = {{0, 2}, {2, 3}, {3, 5}, {5, 6}}, .step_s = 10, .peak_memory_bytes = 200}};
  p.memory = {{.points = {{0, 300}}, .peak_bytes = 300, .peak_action = 0, .at_peak = {{"saved", 300}}},
              {.points = {{0, 200}}, .peak_bytes = 200, .peak_action = 1, .at_peak = {{"saved", 200}}}};
  p.constant = {{{"values", 100}}, {{"values", 50}}};
  p.checkpoint_copy_bytes = {60, 30};
  return p;
}

inline std::vector<plan::MeasuredRank> small_measurement() {
  return {{.rank = 0, .first_step = 5, .num_steps = 3, .step_s = 12, .peak_memory_bytes = 250, .checkpoint_peak_bytes = 320, .checkpoint_copy_bytes = 60,
           .spans = {{0, 2}, {2, 3}, {0, 7}, {7, 10}, {10, 11}, {11, 12}}, .action_s = {2, 1, 7, 3, 1, 1}},
          {.rank = 1, .first_step = 5, .num_steps = 3, .step_s = 12.5, .step_offset_s = 0.5, .peak_memory_bytes = 200,
           .spans = {{0, 3}, {3, 4}, {4, 6}, {6, 7}}, .action_s = {3, 1, 2, 1}}};
}

}  // namespace trireme::report
