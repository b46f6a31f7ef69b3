// One rank's place in a plan: what every part of the execution needs to know. Holds references only.
#pragma once
#include "comm/group.h"
#include "plan/plan.h"

namespace trireme::parallel {

struct StageContext {
  const plan::RunSpec& run;
  const plan::Plan& plan;
  comm::Communicator& communicator;
  int rank = 0;
  at::Device device = at::kCPU;

  int stage_index() const { return plan.mesh.pp_index(rank); }
  const plan::StagePlan& stage() const { return plan.stages.at(stage_index()); }
  std::int64_t tokens() const { return run.batch.micro_batch * run.batch.sequence_length; }  // of a micro-batch
  // The group in which an action communicates.
  comm::Group& group_of(const plan::Action& action) const;
  int peer_of(const plan::Action& message) const;  // the other end of a send or receive, inside its group
};

at::ScalarType to_scalar_type(DType dtype);
DType from_scalar_type(at::ScalarType type);

}  // namespace trireme::parallel
