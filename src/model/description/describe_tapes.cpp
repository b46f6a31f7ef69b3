#include "model/description/walk.h"

namespace trireme::model {

double kept_input_bytes(const Precision& precision) {
  switch (precision.compute) {
    case ComputeFormat::float8:
      return 1;
    case ComputeFormat::mxfp8:
      return 1 + 1.0 / 32;  // a scale of a byte for 32 elements
    case ComputeFormat::nvfp4:
      return 0.5 + 1.0 / 16;
    default:
      return precision.activation_bytes;
  }
}

Tape layer_tape(const Subject& s, int layer) {
  Tape tape;
  Walk<TapeSink>(s, {tape}).layer(layer);
  return tape;
}

Tape head_tape(const Subject& s) {
  Tape tape;
  Walk<TapeSink>(s, {tape}).head(true);
  return tape;
}

Tape mtp_tape(const Subject& s) {
  Tape tape;
  Walk<TapeSink>(s, {tape}).mtp();
  return tape;
}

TapeMemory embedding_memory(const Subject& s) {
  const Share& z = s.share;
  const double hidden = s.model.hidden * s.precision.activation_bytes, stream = z.split_tokens * hidden,
               all = z.tp > 1 ? z.tokens * hidden : 0;
  const double table = vocabulary_rows(s.model, s.kernels, z.tp) * s.model.hidden * s.precision.weight_bytes;
  TapeMemory m;
  m.saved = m.weight_held = z.tokens * 8;
  m.forward_peak = m.saved + stream + all;
  m.backward_peak = m.input_peak = m.saved + stream + all + table;
  m.weight_peak = m.weight_held;
  m.forward_peak_at = m.backward_peak_at = m.input_peak_at = "embedding";
  return m;
}

}  // namespace trireme::model
