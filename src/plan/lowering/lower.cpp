#include "base/dtype.h"
#include "base/errors.h"
#include "base/units.h"
#include "plan/all_to_all/generators.h"
#include "plan/exchange_pattern.h"
#include "plan/layout_schedule.h"
#include "plan/lowering/draft.h"
#include "plan/pieces.h"

namespace trireme::plan {

namespace {

bool is_nothing(const Chunk& c) { return c.num_layers == 0 && !c.embed && !c.head; }

std::vector<std::vector<Chunk>> chunks_of_stages(const Schedule& schedule, const std::vector<Chunk>& pieces) {
  std::vector<std::vector<Chunk>> out(schedule.num_stages);
  for (int stage = 0; stage < schedule.num_stages; ++stage)
    for (int chunk = 0; chunk < schedule.num_chunks; ++chunk) {
      const int piece = piece_of(schedule, stage, chunk);
      out[stage].push_back(piece < 0 ? Chunk{} : pieces.at(piece));
    }
  return out;
}

// A piece that holds nothing would only pass messages on.
Schedule without_pieces_of_nothing(Schedule schedule, const std::vector<Chunk>& pieces) {
  std::vector<int> nothing;
  for (std::size_t i = 0; i < pieces.size(); ++i)
    if (is_nothing(pieces[i])) nothing.push_back(static_cast<int>(i));
  return nothing.empty() ? schedule : without_pieces(schedule, nothing);
}

Plan lower(const RunSpec& run, const Mesh& mesh, Schedule schedule) {
  Plan plan{.mesh = mesh, .schedule = std::move(schedule), .all_to_all = run.layout.all_to_all};
  plan.num_micro_batches = plan.schedule.num_micro_batches;
  // A pattern that is unknown or does not fit the hosts is said here, not in the middle of a run.
  if (needs_nodes(plan.all_to_all))
    for (const NodeShape& shape : ep_shapes(mesh)) make_pattern(plan.all_to_all, shape);
  LayoutSpec layout = run.layout;
  layout.pp = mesh.pp;
  const auto pieces = layers_of_pieces(layout, run.model.num_layers);
  const auto chunks = chunks_of_stages(plan.schedule, pieces);
  plan.schedule = without_pieces_of_nothing(std::move(plan.schedule), pieces);
  const ElementsByPart elements = plan.schedule.forward_only ? ElementsByPart() : elements_by_part(run.model, mesh);
  for (int stage = 0; stage < mesh.pp; ++stage) {
    Draft d = expand_segments(run.model, elements, plan.schedule, chunks[stage], stage);
    d = add_expert_transfers(std::move(d), run.model.num_moe_layers() > 0 ? mesh.ep : 1);
    d = add_pipeline_transfers(std::move(d));
    d = add_gradient_reduction(std::move(d), run.model, elements, mesh, run.layout.bucket_MiB * MiB,
                               size_of(accumulate_dtype(run.device.dtype)));
    d = add_step_ends(std::move(d), run.model, mesh);
    plan.stages.push_back(finish(std::move(d)));
  }
  return plan;
}

}  // namespace

Plan make_training_plan(const RunSpec& run, const Mesh& mesh) {
  return lower(run, mesh, layout_schedule(run.layout, mesh.pp, static_cast<int>(run.batch.num_micro_batches(mesh.dp))));
}

Plan make_evaluation_plan(const RunSpec& run, const Mesh& mesh, int num_micro_batches) {
  return lower(run, mesh, evaluation_schedule(run.layout, mesh.pp, num_micro_batches));
}

}  // namespace trireme::plan
