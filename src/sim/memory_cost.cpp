#include "sim/memory_cost.h"

#include <algorithm>

#include "model/parameter_parts.h"
#include "model/parameters.h"
#include "plan/frozen_parameters.h"

namespace trireme::sim {

using model::Segment;
using plan::ActionKind;
using plan::Buffer;
using plan::BufferKind;

StageParameters stage_parameters(const plan::RunSpec& run, const plan::Mesh& mesh, const plan::StagePlan& stage) {
  StageParameters out;
  const bool embeds = std::any_of(stage.chunks.begin(), stage.chunks.end(), [](const plan::Chunk& c) { return c.embed; });
  for (plan::Chunk c : stage.chunks) {
    c.mtp = false;  // not trained yet
    const model::ParameterParts parts = model::parameters_of(run.model, c);
    out.dense += static_cast<double>(parts.total() - parts.routed_experts);
    out.expert += static_cast<double>(parts.routed_experts) / mesh.ep;
    // A tied head has the embedding's matrix: its own copy where the embedding is on another stage.
    if (run.model.tied_embeddings && c.head && !c.embed && embeds)
      out.dense -= static_cast<double>(model::table_parameters(run.model));
  }
  return out;
}

StageParameters trained_parameters(const plan::RunSpec& run, const plan::Mesh& mesh, const plan::StagePlan& stage) {
  StageParameters out = stage_parameters(run, mesh, stage);
  const plan::FrozenParameters frozen(run.train.freeze);
  if (frozen.empty()) return out;
  const auto has = [&](auto what) { return std::any_of(stage.chunks.begin(), stage.chunks.end(), what); };
  const bool embed = has([](const plan::Chunk& c) { return c.embed; }), head = has([](const plan::Chunk& c) { return c.head; });
  for (const auto& p : model::parameters(run.model)) {
    const bool in_layers = p.layer >= 0 && has([&](const plan::Chunk& c) {
                             return p.layer >= c.first_layer && p.layer < c.first_layer + c.num_layers;
                           });
    const bool in_embed = p.layer < 0 && p.segment == Segment::embed && (embed || (run.model.tied_embeddings && head));
    const bool in_head = p.layer < 0 && p.segment != Segment::embed && head;
    if (!(in_layers || in_embed || in_head) || !frozen.has(p.name)) continue;
    (p.expert < 0 ? out.dense : out.expert) -= static_cast<double>(p.count()) / (p.expert < 0 ? 1 : mesh.ep);
  }
  return out;
}

std::vector<plan::MemoryPart> constant_parts(const plan::RunSpec& run, const plan::Mesh& mesh,
                                             const plan::StagePlan& stage) {
  const double elements = stage_parameters(run, mesh, stage).total();
  const double value = size_of(run.device.dtype), wide = size_of(accumulate_dtype(run.device.dtype));
  std::vector<plan::MemoryPart> out = {{"values", elements * value}};
  if (stage.buckets.empty()) return out;
  const double trained = trained_parameters(run, mesh, stage).total();
  out.push_back({"gradients", elements * wide});
  if (value != wide) out.push_back({"master weights", trained * wide});
  out.push_back({"moments", 2 * trained * wide});
  return out;
}

double checkpoint_copy_bytes(const plan::RunSpec& run, const plan::Mesh& mesh, const plan::StagePlan& stage) {
  double elements = stage_parameters(run, mesh, stage).total(), trained = trained_parameters(run, mesh, stage).total();
  const bool embed = std::any_of(stage.chunks.begin(), stage.chunks.end(), [](const plan::Chunk& c) { return c.embed; });
  const bool head = std::any_of(stage.chunks.begin(), stage.chunks.end(), [](const plan::Chunk& c) { return c.head; });
  if (run.model.tied_embeddings && head && !embed) {
    const double table = static_cast<double>(model::table_parameters(run.model));
    elements -= table;
    if (!plan::FrozenParameters(run.train.freeze).has("embed.weight")) trained -= table;
  }
  const double value = size_of(run.device.dtype), wide = size_of(accumulate_dtype(run.device.dtype));
  double biases = 0;
  if (run.model.moe.router.selection_bias)
    for (const plan::Chunk& c : stage.chunks)
      for (int layer = c.first_layer; layer < c.first_layer + c.num_layers; ++layer)
        if (run.model.is_moe(layer)) biases += 4.0 * run.model.moe.num_experts;  // float32
  return elements * value + trained * (2 * wide + (value != wide ? wide : 0)) + biases;
}

bool runs_fused(const plan::RunSpec& run) {
  return run.device.device == "cpu" && accumulate_dtype(run.device.dtype) == run.device.dtype;
}

model::SegmentShape segment_shape(const plan::RunSpec& run, const plan::Mesh& mesh, int threads, bool training) {
  model::SegmentShape shape{.sequences = run.batch.micro_batch,
                            .sequence_length = run.batch.sequence_length,
                            .ep = mesh.ep,
                            .dtype = run.device.dtype,
                            .threads = std::max(1, threads),
                            .training = training,
                            .fused = runs_fused(run)};
  if (run.model.moe.num_experts > 0) {
    shape.rows_sent = shape.tokens() * run.model.moe.router.top_k;
    shape.rows_received = shape.rows_sent;
    shape.local_experts = run.model.moe.num_experts / mesh.ep;
  }
  return shape;
}

namespace {

double stream_bytes(const plan::RunSpec& run, const model::SegmentShape& shape) {
  return static_cast<double>(shape.tokens()) * run.model.hidden * size_of(run.device.dtype);
}

}  // namespace

double buffer_bytes(const plan::RunSpec& run, const model::SegmentShape& shape, const Buffer& b) {
  const double size = size_of(run.device.dtype);
  if (b.kind == BufferKind::batch)  // tokens, targets, positions and documents in int64, weights in float32
    return static_cast<double>(shape.tokens()) * (4 * 8 + 4);
  if (b.segment == Segment::none) return stream_bytes(run, shape);
  if (b.message) {
    // Received rows and, to the experts and back, their scores; the residual stream passes through, held by this buffer
    // once the one before is freed.
    const double rows = static_cast<double>(shape.rows_received) * run.model.hidden * size;
    const double scores = b.segment == Segment::dispatch
                              ? static_cast<double>(shape.rows_received) * size_of(accumulate_dtype(run.device.dtype))
                              : 0;
    return rows + scores + stream_bytes(run, shape);
  }
  const model::SegmentMemory memory = model::segment_memory(run.model, b.segment, b.layer, shape);
  // The gradient of the shared expert's output is the residual's own.
  if (b.to_shared) return b.kind == BufferKind::boundary ? memory.to_shared.value : 0;
  switch (b.kind) {
    case BufferKind::boundary: return memory.boundary.value;
    case BufferKind::saved: return memory.saved.value;
    case BufferKind::gradient: return memory.input_gradient.value;
    case BufferKind::weight_work: return memory.weight_work.value;
    case BufferKind::batch:
    case BufferKind::host: break;
  }
  return 0;
}

double workspace_bytes(const plan::RunSpec& run, const model::SegmentShape& shape, const plan::StagePlan& stage,
                       const plan::Action& a) {
  const auto memory = [&] { return model::segment_memory(run.model, a.segment, a.layer, shape); };
  if (a.kind == ActionKind::forward) return memory().forward_workspace.value;
  if (a.kind == ActionKind::weight_gradient) return memory().weight_workspace.value;
  // The residual stream passes through as one tensor in the buffer that is freed and in the one that is filled: while both
  // are alive it is counted twice, and taken off here.
  if (a.kind == ActionKind::all_to_all) return -stream_bytes(run, shape);
  if (a.kind == ActionKind::backward || a.kind == ActionKind::input_gradient) {
    const Bytes workspace = a.kind == ActionKind::backward ? memory().backward_workspace : memory().input_workspace;
    const bool passes = a.segment == Segment::experts || a.segment == Segment::combine;
    return workspace.value - (passes ? stream_bytes(run, shape) : 0);
  }
  // A reduction in another dtype than the gradients' makes a copy of the bucket.
  if (a.kind == ActionKind::reduce && run.device.reduce_dtype != accumulate_dtype(run.device.dtype))
    return stage.buckets[a.bucket].elements * size_of(run.device.reduce_dtype);
  return 0;
}

}  // namespace trireme::sim
