#include "sim/estimate/memory_builder.h"

#include <algorithm>

namespace trireme::sim {

LayerBuilder::LayerBuilder(const Setting& st, const model::Kernels& p, const MemorySizes& sizes,
                           plan::RecomputeSet r)
    : setting(st), spec(st.model), kernels(p), z(sizes), recompute(r) {
  for (Group g :
       {up_projection, first_norm, second_norm, activation, shared_activation, permutation, received_permutation})
    tape.groups[g] = Rerun::output;
}

int LayerBuilder::group(std::initializer_list<Part> parts) const {
  if (recompute.has(plan::Recompute::layer)) return whole_layer;
  for (const Part& p : parts)
    if (recompute.has(p.part)) return p.group;
  return none;
}

int LayerBuilder::linear(const char* name, const char* out_name, int in, double out_bytes, int group, double gathered,
                         double partial) {
  const int out = tape.tensor(out_name, out_bytes);
  int keeps = in, copy = none;
  if (z.quantised) {
    copy = tape.tensor("quantised input", tape.tensors[in].bytes / z.element * z.kept_input, 0);
    keeps = copy;
  }
  const double gradient_copies = z.quantised ? 2 * std::max(out_bytes, partial) / z.element * z.kept_input : 0;
  tape.add({.name = name,
            .in = {in},
            .out = {out, copy},
            .saved = {keeps},
            .group = group,
            .has_weight = true,
            .forward_workspace = gathered + partial,
            .backward_workspace = 2 * gathered + partial + gradient_copies});
  return out;
}

int LayerBuilder::norm(const char* name, const char* out_name, int in, double bytes, double statistics, int group) {
  const int out = tape.tensor(out_name, bytes);
  const int stat = kernels.norm_statistics ? tape.tensor("norm statistics", statistics, 0) : none;
  if (kernels.fused_norm) {
    tape.add({.name = name, .in = {in}, .out = {out, stat}, .saved = {in, stat}, .group = group});
    return out;
  }
  const int wide = tape.tensor("norm's float32 input", bytes / z.element * 4),
            scaled = tape.tensor("normalised", bytes);
  tape.add({.name = name, .in = {in}, .out = {wide}, .group = group});
  tape.add({.name = name, .in = {wide}, .out = {scaled, stat}, .saved = {wide, stat}, .group = group});
  tape.add({.name = name, .in = {scaled}, .out = {out}, .saved = {scaled}, .group = group});
  return out;
}

int LayerBuilder::residual(const char* name, int branch, int stream, int group) {
  const int out = tape.tensor("residual stream", split(spec.hidden));
  tape.add({.name = name, .in = {branch, stream}, .out = {out}, .group = group, .passes_gradient = true});
  return out;
}

int LayerBuilder::dropout(const char* name, int in, int group) {
  if (!kernels.dropout) return in;
  const int out = tape.tensor("dropped out", split(spec.hidden));
  const int mask = tape.tensor("dropout mask", z.split_tokens * spec.hidden, 0);
  tape.add({.name = name, .in = {in}, .out = {out, mask}, .saved = {mask}, .group = group});
  return out;
}

}  // namespace trireme::sim
