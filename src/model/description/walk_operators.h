// What one operator is in all its passes: FLOPs and bytes that follow from a shape, the tensors around it, its weight.
// Included by walk.h.
#pragma once
#include "model/description/walk.h"

namespace trireme::model {

template <class Sink>
void Walk<Sink>::weight(const char* name, double rows, double columns, WeightKind kind, WeightPlace place,
                        WeightRole role, bool accumulates, bool multiplies, double count) {
  if constexpr (Sink::weights) {
    if (rows > 0 && columns > 0)
      sink.list.add({name, rows, columns, count, kind, place, role, accumulates, multiplies, segment});
  }
}

// Host time of a kernel that an operation launches in a loop of its own, in native code, over that of an operation that
// goes through Python and autograd.
inline constexpr double native_launch = 0.2;

template <class Sink>
double Walk<Sink>::launches_of(double groups) const {
  return groups <= 1 || !s.execution.launches_by_expert ? 1 : 1 + native_launch * groups;
}

template <class Sink>
void Walk<Sink>::one_matmul(const char* what, Part part, OperatorPass pass, double m, double n, double k, double groups,
                            bool narrow, double calls) {
  const double operand = narrow ? 1.0 : element;
  const bool of_weight = pass == OperatorPass::weight_gradient;
  add({.what = what,
       .kind = OperatorKind::matmul,
       .pass = pass,
       .part = part,
       .narrow = narrow,
       .m = of_weight ? n : m,
       .n = of_weight ? k : n,
       .k = of_weight ? m : k,
       .groups = groups,
       .flops = 2 * m * n * k * groups,
       .bytes = groups * (operand * (m * k + n * k) + element * m * n),
       .launches = launches(launches_of(groups), calls),
       .kernels = launches(s.execution.launches_by_expert ? groups : 1, calls)});
}

// A matmul's weight gradient and input gradient are a matmul of the same size each. In a narrow compute format the
// input is quantised before, and the output's gradient in the backward, for both orientations.
template <class Sink>
void Walk<Sink>::matmul(const char* what, Part part, double m, double n, double k, double groups, Quantised q,
                        Calls calls) {
  if constexpr (Sink::operators) {
    const bool narrow = is_narrow(s.precision.compute);
    if (narrow) {
      // Read in 16 bits, written twice in 8: rows for this matmul, columns for the weight gradient's. A scale of the
      // whole tensor wants a pass for the largest element before; NVFP4's columns are rotated in a pass of their own.
      const bool nvfp4 = s.precision.compute == ComputeFormat::nvfp4;
      const bool largest_first = s.precision.compute == ComputeFormat::float8 && s.execution.current_scaling;
      const double reads = nvfp4 ? 3 : largest_first ? 2 : 1;
      const double bytes = reads * element + 2 * (nvfp4 ? 0.5 : 1);
      const double quantising = launches_of(groups), kernels = s.execution.launches_by_expert ? groups : 1;
      if (q.input)
        memory("quantisation of the input", part, OperatorPass::forward, bytes * m * k * groups, quantising, kernels);
      if (q.gradient)
        memory("quantisation of the gradient", part, OperatorPass::input_gradient, bytes * m * n * groups, quantising,
               kernels);
    }
    one_matmul(what, part, OperatorPass::forward, m, n, k, groups, narrow, calls.forward);
    one_matmul(what, part, OperatorPass::input_gradient, m, k, n, groups, narrow, calls.input_gradient);
    one_matmul(what, part, OperatorPass::weight_gradient, m, n, k, groups, narrow, calls.weight_gradient);
    // n x k from m rows; accumulated in the gradient's own format.
    sink.list.last().bytes += 2 * s.precision.gradient_bytes * n * k * groups;
  }
}

template <class Sink>
void Walk<Sink>::matmul_16(const char* what, Part part, double m, double n, double k, Calls calls) {
  one_matmul(what, part, OperatorPass::forward, m, n, k, 1, false, calls.forward);
  one_matmul(what, part, OperatorPass::input_gradient, m, k, n, 1, false, calls.input_gradient);
  one_matmul(what, part, OperatorPass::weight_gradient, m, n, k, 1, false, calls.weight_gradient);
}

template <class Sink>
void Walk<Sink>::batched(const char* what, Part part, OperatorPass pass, double m, double n, double k, double groups) {
  if constexpr (Sink::operators) {
    one_matmul(what, part, pass, m, n, k, groups, false, 1);
    sink.list.last().launches = sink.list.last().kernels = 1;
  }
}

template <class Sink>
void Walk<Sink>::attention_pass(const char* what, OperatorPass pass, double flops, double launches) {
  add({.what = what,
       .kind = OperatorKind::attention,
       .pass = pass,
       .part = Part::core,
       .flops = flops,
       .sequence = z.sequence_length,
       .heads = std::max(1.0, z.sequences * s.model.attention.num_heads / z.tp / z.cp),
       .head_dim = double(std::min(s.model.attention.head_dim, s.model.attention.value_dim())),
       .launches = launches,
       .kernels = launches});
}

template <class Sink>
void Walk<Sink>::memory(const char* what, Part part, OperatorPass pass, double bytes, double launches, double kernels) {
  add({.what = what,
       .kind = OperatorKind::memory,
       .pass = pass,
       .part = part,
       .bytes = bytes,
       .launches = launches,
       .kernels = kernels});
}

template <class Sink>
void Walk<Sink>::elementwise(const char* what, Part part, double elements, double forward_passes,
                             double backward_passes, double untiled, Calls calls) {
  memory(what, part, OperatorPass::forward, elements * element * forward_passes, launches(untiled, calls.forward));
  memory(what, part, OperatorPass::input_gradient, elements * element * backward_passes,
         launches(untiled, calls.input_gradient));
}

template <class Sink>
double Walk<Sink>::tile_rows(double tokens, double width) const {
  if constexpr (!Sink::tensors) return 0;
  return s.kernels.tiled ? z.threads * row(Tiles(tokens).size, width) : 0;
}

template <class Sink>
double Walk<Sink>::tile_sums(double tokens, double width) const {
  if constexpr (!Sink::tensors) return 0;
  return s.kernels.tiled ? row(Tiles(tokens).count, width) : 0;
}

template <class Sink>
void Walk<Sink>::collective(const char* what, Part part, OperatorPass pass, CollectiveKind kind, Axis axis,
                            double message, bool beside) {
  add({.what = what,
       .kind = OperatorKind::collective,
       .pass = pass,
       .part = part,
       .collective = kind,
       .axis = axis,
       .beside = beside,
       .message = message});
}

template <class Sink>
int Walk<Sink>::linear(const Linear& l) {
  weight(l.name, l.rows, l.columns, WeightKind::matrix, l.place, l.role, true, true, l.groups);
  matmul(l.name, l.part, l.tokens / l.groups, l.rows, l.columns, l.groups, {l.quantises_input, l.quantises_gradient},
         l.calls);
  return linear_tensors(l);
}

// Its weight's gradient needs its input.
template <class Sink>
int Walk<Sink>::linear_tensors(const Linear& l) {
  if constexpr (!Sink::tensors) return 0;
  const double out_bytes = l.out_bytes >= 0 ? l.out_bytes : row(l.tokens, l.rows);
  const int out = tensor(l.out_name, out_bytes, l.gradient_in_place ? 0 : out_bytes);
  record([&] {
    int keeps = l.in, copy = none;
    if (quantised) {
      copy = tensor("quantised input", bytes_of(l.in) / element * kept_input, 0);
      keeps = copy;
    }
    const double gradient_copies = quantised ? 2 * std::max(out_bytes, l.partial) / element * kept_input : 0;
    return Tape::Operator{.name = l.name,
                          .in = {l.in},
                          .out = {out, copy},
                          .saved = {keeps},
                          .group = l.group,
                          .has_weight = true,
                          .forward_workspace = l.gathered + l.partial + l.forward_scratch,
                          .backward_workspace = 2 * l.gathered + l.partial + gradient_copies + l.backward_scratch,
                          .weight_workspace = l.weight_scratch,
                          .ends_call = l.ends_call,
                          .weight_bytes = row(l.tokens, l.columns) + row(l.tokens, l.rows),
                          .weight_input = l.weight_input != none ? l.weight_input : l.in};
  });
  return out;
}

template <class Sink>
int Walk<Sink>::norm(const Norm& n) {
  if (n.role == WeightRole::norms)
    norm_weight(n.name, n.width);
  else
    vector(n.name, n.width, WeightPlace::whole, n.role);
  norm_operator(n.name, n.tokens * n.width, n.calls);
  return norm_tensors(n);
}

template <class Sink>
int Walk<Sink>::norm_tensors(const Norm& n) {
  if constexpr (!Sink::tensors) return 0;
  const double bytes = row(n.tokens, n.width);
  const bool tiled = s.kernels.tiled;
  const int in = n.in,
            out = tensor(n.out_name, tiled && n.in_tile ? 0 : bytes, tiled && n.gradient_in_tile ? 0 : bytes);
  const int stat = s.kernels.norm_statistics ? tensor("norm statistics", n.tokens * wide, 0) : none;
  if (s.kernels.fused_norm && s.kernels.remakes_norm) {
    // What is made again starts from the statistics.
    record([&] {
      return Tape::Operator{.name = "norm statistics", .in = {in}, .out = {stat}, .passes_gradient = true};
    });
    record([&] {
      return Tape::Operator{.name = n.name,
                            .in = {in, stat},
                            .out = {out},
                            .saved = {in, stat},
                            .group = n.group,
                            .backward_workspace = n.in_tile || n.gradient_in_tile ? 0 : tile_sums(n.tokens, n.width),
                            .weight_bytes = row(1, n.width)};
    });
    return out;
  }
  if (s.kernels.fused_norm) {
    record([&] {
      return Tape::Operator{.name = n.name, .in = {in}, .out = {out, stat}, .saved = {in, stat}, .group = n.group};
    });
    return out;
  }
  const int in_float = tensor("norm's float32 input", bytes / element * wide),
            scaled = tensor("normalised", s.kernels.wide_norm ? bytes / element * wide : bytes);
  record([&] { return Tape::Operator{.name = n.name, .in = {in}, .out = {in_float}, .group = n.group}; });
  record([&] {
    return Tape::Operator{
        .name = n.name, .in = {in_float}, .out = {scaled, stat}, .saved = {in_float, stat}, .group = n.group};
  });
  record([&] {
    return Tape::Operator{.name = n.name, .in = {scaled}, .out = {out}, .saved = {scaled}, .group = n.group};
  });
  return out;
}

template <class Sink>
int Walk<Sink>::sum(const char* name, int branch, int other, int group, double bytes, double scratch) {
  const int out = tensor("residual stream", bytes);
  record([&] {
    return Tape::Operator{.name = name,
                          .in = {branch, other},
                          .out = {out},
                          .group = group,
                          .passes_gradient = true,
                          .forward_workspace = scratch};
  });
  return out;
}

template <class Sink>
int Walk<Sink>::dropout(const char* name, int in, int group) {
  if constexpr (!Sink::tensors) return 0;
  if (!s.kernels.dropout) return in;
  const int out = tensor("dropped out", split(s.model.hidden));
  const int mask = tensor("dropout mask", z.split_tokens * s.model.hidden, 0);
  record([&] {
    return Tape::Operator{.name = name, .in = {in}, .out = {out, mask}, .saved = {mask}, .group = group};
  });
  return out;
}

template <class Sink>
void Walk<Sink>::residual(const Ending& e, int out, int group_of_branch) {
  const ModelSpec& m = s.model;
  if (m.sandwich_norms)
    out = norm({.name = e.norm,
                .out_name = "normed output",
                .in = out,
                .tokens = z.split_tokens,
                .width = double(m.hidden),
                .group = group_of_branch});
  // With several residual streams a block reads a mixture of them and writes to all.
  const bool several = m.residual_streams > 1;
  if (!(segment == Segment::combine && s.kernels.permutes_by_token))  // else in the pass that sums the rows
    elementwise("residual", Part::norm, z.split_tokens * m.hidden * m.residual_streams, several ? 4 : 3,
                several ? 6 : 2, several ? 8 : 1, e.calls);
  streams();
  out = dropout(e.dropout, out, group_of_branch);
  stream = sum(e.sum, out, stream, group({}), split(m.hidden), e.scratch);
}

// Of one place where the streams are read and written: a matrix from all of them, its biases and three scales.
template <class Sink>
void Walk<Sink>::streams() {
  const double n = s.model.residual_streams, mixes = (2 + n) * n;
  if (n > 1)
    weight("mixing of the residual streams", mixes * n * s.model.hidden + mixes + 3, 1, WeightKind::vector,
           WeightPlace::whole, WeightRole::norms, false, false);
}

}  // namespace trireme::model
