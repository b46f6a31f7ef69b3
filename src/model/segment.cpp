#include "model/segment.h"

#include "model/model_spec.h"

namespace trireme::model {

const char* name_of(Segment segment) {
  switch (segment) {
    case Segment::none:
      return "none";
    case Segment::embed:
      return "embed";
    case Segment::attention:
      return "attention";
    case Segment::dispatch:
      return "dispatch";
    case Segment::shared:
      return "shared";
    case Segment::experts:
      return "experts";
    case Segment::combine:
      return "combine";
    case Segment::mlp:
      return "mlp";
    case Segment::head:
      return "head";
  }
  return "unknown";
}

std::vector<Segment> computing_segments(const ModelSpec& spec, int layer) {
  if (!spec.is_moe(layer)) return {Segment::attention, Segment::mlp};
  if (spec.moe.shared_ffn == 0) return {Segment::attention, Segment::experts, Segment::combine};
  return {Segment::attention, Segment::shared, Segment::experts, Segment::combine};
}

}  // namespace trireme::model
