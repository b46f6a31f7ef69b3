#include "sim/simulated_layout.h"

#include <algorithm>

#include "plan/pieces.h"
#include "plan/pipeline/generators.h"
#include "sim/chunk_costs.h"

namespace trireme::sim {

double num_actions(const Setting& s) {
  const plan::LayoutSpec& l = s.layout;
  const double micro_batches = static_cast<double>(s.batch.num_micro_batches(l.dp));
  // Of a chunk and micro-batch: two slots (three where the backward is split), a message each way at both of its ends, and
  // two copies.
  const bool split = l.schedule.starts_with("zero_bubble") || l.schedule == "dualpipe_v";
  const double each = (split ? 3 : 2) + (l.pp > 1 ? 4 : 0) + (l.swap.has(plan::Swap::activations) ? 2 : 0);
  return double(l.pp) * plan::chunks_a_stage(l.schedule, l.virtual_stages) * micro_batches * each;
}

SimulatedLayout simulate_layout(const Setting& setting, const plan::Schedule& schedule,
                                std::shared_ptr<const CompiledGrid> grid, const Rates& rates,
                                const model::Kernels& memory) {
  const plan::LayoutSpec& l = setting.layout;
  const StepModel model(setting, std::move(grid), memory);
  SimulatedLayout out;
  const plan::Mesh mesh{.pp = l.pp, .dp = 1, .ep = 1};  // a rank a stage stands for all of its ranks
  out.plan = plan::lower_chunks(l, mesh, schedule, plan::layers_of_pieces(l, setting.model.num_layers));
  const plan::Costs costs = chunk_costs(out.plan, model, rates, stage_holdings(setting, schedule, memory));
  out.result = simulate(out.plan, costs);
  for (const plan::MemoryCurve& curve : out.result.memory)
    out.needed_bytes = std::max(out.needed_bytes, needed_bytes(setting, memory, curve.peak_bytes));
  return out;
}

}  // namespace trireme::sim
