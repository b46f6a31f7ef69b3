#include "sim/estimate/work_builder.h"

#include "sim/estimate/expert_load.h"

namespace trireme::sim {

WorkBuilder::WorkBuilder(const Setting& s, OperatorList& out)
    : setting(s),
      tokens(token_counts(s)),
      load(s.model.moe.num_experts > 0 ? heaviest_rank(s.load, s.model.moe.num_experts, s.layout.ep) : 1),
      out_(out) {}

bool WorkBuilder::narrow_format() const {
  const ComputeFormat f = setting.precision.compute;
  return f == ComputeFormat::float8 || f == ComputeFormat::mxfp8 || f == ComputeFormat::nvfp4;
}

void WorkBuilder::add(Operator work) {
  work.apart = apart_ && work.kind != OperatorKind::collective;
  out_.add(work);
}

void WorkBuilder::weight_gradients_apart(Part part) {
  for (int i = 0; i < out_.size; ++i)
    if (Operator& w = out_.items[i]; w.part == part && w.pass == OperatorPass::weight_gradient) w.apart = true;
}

namespace {
// Host time of a kernel that an operation launches in a loop of its own, in native code, over that of an operation that
// goes through Python and autograd.
constexpr double native_launch = 0.2;
}  // namespace

double WorkBuilder::expert_launches(double groups) const {
  if (groups <= 1 || !setting.execution.launches_by_expert) return 1;
  return 1 + native_launch * groups;
}

void WorkBuilder::one_matmul(const char* what, Part part, OperatorPass pass, double m, double n, double k, double groups,
                             bool narrow) {
  const double element = narrow ? 1.0 : setting.precision.activation_bytes;
  add({.what = what,
       .kind = OperatorKind::matmul,
       .pass = pass,
       .part = part,
       .narrow = narrow,
       .m = m,
       .n = n,
       .k = k,
       .groups = groups,
       .flops = 2 * m * n * k * groups,
       .bytes = groups * (element * (m * k + n * k) + setting.precision.activation_bytes * m * n),
       .launches = expert_launches(groups),
       .kernels = setting.execution.launches_by_expert ? groups : 1});
}

void WorkBuilder::matmul(const char* what, Part part, double m, double n, double k, double groups,
                         Quantised quantised) {
  const bool narrow = narrow_format();
  if (narrow) {
    // Read in 16 bits, written twice in 8: rows for this matmul, columns for the weight gradient's. A scale of the
    // whole tensor wants a pass for the largest element before; NVFP4's columns are rotated in a pass of their own.
    const bool nvfp4 = setting.precision.compute == ComputeFormat::nvfp4;
    const bool largest_first = setting.precision.compute == ComputeFormat::float8 && setting.execution.current_scaling;
    const double reads = nvfp4 ? 3 : largest_first ? 2 : 1;
    const double bytes = reads * setting.precision.activation_bytes + 2 * (nvfp4 ? 0.5 : 1);
    const double kernels = setting.execution.launches_by_expert ? groups : 1;
    for (const bool forward : {true, false}) {
      if (!(forward ? quantised.input : quantised.gradient)) continue;
      memory(forward ? "quantisation of the input" : "quantisation of the gradient", part,
             forward ? OperatorPass::forward : OperatorPass::input_gradient, bytes * m * (forward ? k : n) * groups, kernels);
      out_.items[out_.size - 1].launches = expert_launches(groups);
    }
  }
  one_matmul(what, part, OperatorPass::forward, m, n, k, groups, narrow);
  one_matmul(what, part, OperatorPass::input_gradient, m, k, n, groups, narrow);
  // n x k from m rows; accumulated in the gradient's own format.
  one_matmul(what, part, OperatorPass::weight_gradient, m, n, k, groups, narrow);
  out_.items[out_.size - 1].bytes += 2 * setting.precision.gradient_bytes * n * k * groups;
}

void WorkBuilder::matmul_16(const char* what, Part part, double m, double n, double k) {
  one_matmul(what, part, OperatorPass::forward, m, n, k, 1, false);
  one_matmul(what, part, OperatorPass::input_gradient, m, k, n, 1, false);
  one_matmul(what, part, OperatorPass::weight_gradient, m, n, k, 1, false);
}

void WorkBuilder::feed_forward(Part part, double rows, double width, double ffn, double groups) {
  const bool gated = setting.model.gated;
  // Biases of experts make a chain of elementwise kernels of it (bias, clamps, gate, score; GPT-OSS).
  const bool chain = groups > 1 && setting.model.moe.expert_bias;
  const bool fused = part == Part::experts && groups > 1 && setting.execution.fused_experts && !chain;
  if (fused) {
    // The activation is in the epilogues: of the first matmul forward, of the second one's input gradient backward.
    // Both write what the next matmul reads, in its format; beside it the forward keeps what the backward needs.
    matmul(gated ? "gate and up" : "up", part, rows, gated ? 2 * ffn : ffn, width, groups, {.gradient = false});
    matmul("down", part, rows, width, ffn, groups, {.input = false});
    return;
  }
  matmul(gated ? "gate and up" : "up", part, rows, gated ? 2 * ffn : ffn, width, groups);
  elementwise("activation", Part::activation, rows * groups * ffn,
              chain   ? 24
              : gated ? 3
                      : 2,
              chain   ? 36
              : gated ? 5
                      : 3,
              chain ? 12 : 1);
  matmul("down", part, rows, width, ffn, groups);
}

void WorkBuilder::norm(const char* what, double elements) {
  elementwise(what, Part::norm, elements, 2, 3, 1);
}

void WorkBuilder::residual() {
  const model::ModelSpec& m = setting.model;
  if (m.sandwich_norms) norm("norm before the residual", tokens.residual * m.hidden);
  // With several residual streams a block reads a mixture of them and writes to all.
  const double elements = tokens.residual * m.hidden * m.residual_streams;
  elementwise("residual", Part::norm, elements, m.residual_streams > 1 ? 4 : 3, m.residual_streams > 1 ? 6 : 2,
              m.residual_streams > 1 ? 8 : 1);
}

void WorkBuilder::elementwise(const char* what, Part part, double elements, double forward_passes,
                              double backward_passes, double launches) {
  const double bytes = elements * setting.precision.activation_bytes;
  memory(what, part, OperatorPass::forward, bytes * forward_passes, launches);
  memory(what, part, OperatorPass::input_gradient, bytes * backward_passes, launches);
}

void WorkBuilder::exchange(double elements) {
  const bool beside = setting.layout.overlap.experts;
  if (setting.layout.all_to_all == "allgather") {
    // Every rank of the group sees all tokens, and sums what its experts made of them.
    const double bytes =
        tokens.residual * setting.model.hidden * setting.layout.ep * setting.precision.activation_bytes;
    for (const OperatorPass pass : {OperatorPass::forward, OperatorPass::input_gradient}) {
      collective("gather of tokens", Part::exchange, pass, CollectiveKind::all_gather, Axis::ep, bytes, beside);
      collective("scatter of sums", Part::exchange, pass, CollectiveKind::reduce_scatter, Axis::ep, bytes, beside);
    }
    return;
  }
  const double out = elements * setting.precision.dispatch_bytes, back = elements * setting.precision.activation_bytes;
  collective("dispatch", Part::exchange, OperatorPass::forward, CollectiveKind::exchange, Axis::ep, out, beside);
  collective("combine", Part::exchange, OperatorPass::forward, CollectiveKind::exchange, Axis::ep, back, beside);
  collective("dispatch's gradient", Part::exchange, OperatorPass::input_gradient, CollectiveKind::exchange, Axis::ep,
             back, beside);
  collective("combine's gradient", Part::exchange, OperatorPass::input_gradient, CollectiveKind::exchange, Axis::ep,
             back, beside);
}

void WorkBuilder::memory(const char* what, Part part, OperatorPass pass, double bytes, double launches) {
  add({.what = what,
       .kind = OperatorKind::memory,
       .pass = pass,
       .part = part,
       .bytes = bytes,
       .launches = launches,
       .kernels = launches});
}

void WorkBuilder::attention(const char* what, OperatorPass pass, double flops, double launches) {
  add({.what = what,
       .kind = OperatorKind::attention,
       .pass = pass,
       .part = Part::core,
       .flops = flops,
       .launches = launches,
       .kernels = launches});
}

void WorkBuilder::batched(const char* what, Part part, OperatorPass pass, double m, double n, double k, double groups) {
  one_matmul(what, part, pass, m, n, k, groups, false);
  out_.items[out_.size - 1].launches = out_.items[out_.size - 1].kernels = 1;
}

void WorkBuilder::collective(const char* what, Part part, OperatorPass pass, CollectiveKind kind, Axis axis, double message,
                             bool beside) {
  add({.what = what,
       .kind = OperatorKind::collective,
       .pass = pass,
       .part = part,
       .beside = beside,
       .collective = kind,
       .axis = axis,
       .message = message});
}

void add_embedding_work(const Setting& s, OperatorList& out) {
  WorkBuilder b(s, out);
  b.elementwise("embedding", Part::head, b.tokens.residual * s.model.hidden, 2, 4, 2);
}

void add_head_work(const Setting& s, OperatorList& out) {
  WorkBuilder b(s, out);
  const double T = b.tokens.attention, D = s.model.hidden, V = double(s.model.vocab_size) / s.layout.tp;
  b.norm("final norm", b.tokens.residual * D);
  if (s.layout.tp > 1 && s.layout.sequence_parallel) {
    const double bytes = T * D * s.precision.activation_bytes;
    b.collective("gather before the head", Part::head, OperatorPass::forward, CollectiveKind::all_gather, Axis::tp,
                 bytes, false);
    b.collective("scatter of the head's input gradient", Part::head, OperatorPass::input_gradient,
                 CollectiveKind::reduce_scatter, Axis::tp, bytes, false);
  }
  b.matmul_16("head", Part::head, T, V, D);
  // Logits: fused, read and written once each way; else converted to float32, reduced twice, and gradients converted
  // back.
  b.memory("cross-entropy", Part::head, OperatorPass::forward, (s.execution.fused_loss ? 6 : 22) * T * V, 6);
  b.memory("cross-entropy", Part::head, OperatorPass::input_gradient, (s.execution.fused_loss ? 4 : 14) * T * V, 4);
}

void add_mtp_projection_work(const Setting& s, OperatorList& out) {
  WorkBuilder b(s, out);
  const double R = b.tokens.residual, D = s.model.hidden;
  b.norm("norms before the MTP projection", 2 * R * D);
  b.elementwise("embedding of the next token", Part::head, R * D, 2, 4, 2);
  b.matmul("MTP projection", Part::projection, b.tokens.attention, D / s.layout.tp, 2 * D);
}

}  // namespace trireme::sim
