#include "model/operators.h"

#include "base/errors.h"
#include "model/compute_dtype.h"
#include "model/segment_subject.h"

namespace trireme::model {

namespace {

const Kernels& kernels_of(const SegmentShape& shape) {
  static const Kernels fused = find_kernels("trireme"), plain = find_kernels("trireme_device");
  return shape.fused ? fused : plain;
}

Precision precision_of(DType dtype) {
  const double size = size_of(dtype), wide = size_of(accumulate_dtype(dtype));
  return {.compute = format_of(dtype),
          .weight_bytes = size,
          .gradient_bytes = wide,
          .activation_bytes = size,
          .dispatch_bytes = size};
}

OperatorList described(const ModelSpec& spec, Segment segment, int layer, const SegmentSubject& subject) {
  OperatorList all;
  switch (segment) {
    case Segment::embed:
      embedding_operators(subject.of(spec), all);
      break;
    case Segment::head:
      head_operators(subject.of(spec), all);
      break;
    case Segment::none:
      TRIREME_CHECK(false, "no segment");
      break;
    default:
      layer_operators(subject.of(spec), layer, all);
  }
  return all;
}

// Operators in the order of the forward become that of the backward; the passes of one operator stay as they are.
std::vector<Operator> reversed(const std::vector<Operator>& list) {
  std::vector<Operator> out;
  for (std::size_t end = list.size(); end > 0;) {
    std::size_t begin = end - 1;
    while (begin > 0 && list[begin - 1].what == list[end - 1].what) --begin;
    out.insert(out.end(), list.begin() + static_cast<std::ptrdiff_t>(begin),
               list.begin() + static_cast<std::ptrdiff_t>(end));
    end = begin;
  }
  return out;
}

}  // namespace

SegmentSubject::SegmentSubject(const SegmentShape& shape)
    : share{.sequences = static_cast<double>(shape.sequences),
            .sequence_length = static_cast<double>(shape.sequence_length),
            .tokens = static_cast<double>(shape.tokens()),
            .split_tokens = static_cast<double>(shape.tokens()),
            .rows_sent = static_cast<double>(shape.rows_sent),
            .rows = static_cast<double>(shape.rows_received),
            .ep = shape.ep,
            .threads = shape.threads,
            .training = shape.training},
      precision(precision_of(shape.dtype)),
      execution{.fused_loss = false},  // plain operators convert the logits; fused kernels have a loss of their own
      kernels(kernels_of(shape)) {}

std::vector<Operator> operators(const ModelSpec& spec, Segment segment, int layer, Pass pass,
                                const SegmentShape& shape) {
  std::vector<Operator> out;
  for (const Operator& op : described(spec, segment, layer, SegmentSubject(shape))) {
    if (op.segment != segment || op.kind == OperatorKind::collective || (op.early && !shape.training)) continue;
    const bool in_backward = op.pass != OperatorPass::forward && !op.early;
    if (in_backward == (pass == Pass::backward)) out.push_back(op);
  }
  return pass == Pass::backward ? reversed(out) : out;
}

std::vector<Operator> operators(const ModelSpec& spec, Segment segment, int layer, OperatorPass pass,
                                const SegmentShape& shape) {
  if (pass == OperatorPass::forward) return operators(spec, segment, layer, Pass::forward, shape);
  std::vector<Operator> out = operators(spec, segment, layer, Pass::backward, shape);
  std::erase_if(out, [&](const Operator& op) { return op.pass != pass; });
  return out;
}

}  // namespace trireme::model
