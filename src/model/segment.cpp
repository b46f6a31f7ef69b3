#include "model/segment.h"

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

}  // namespace trireme::model
