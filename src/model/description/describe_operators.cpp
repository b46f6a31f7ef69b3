#include "model/description/walk.h"

namespace trireme::model {

void layer_operators(const Subject& s, int layer, OperatorList& out) {
  Walk<OperatorSink>(s, {out}).layer(layer);
}
void embedding_operators(const Subject& s, OperatorList& out) {
  Walk<OperatorSink>(s, {out}).embedding();
}
void head_operators(const Subject& s, OperatorList& out) {
  Walk<OperatorSink>(s, {out}).head(true);
}
void mtp_operators(const Subject& s, OperatorList& out) {
  Walk<OperatorSink>(s, {out}).mtp();
}

bool recomputes(RecomputeSet set, Part part, bool moe) {
  if (set.has(Recompute::layer)) return true;
  switch (part) {
    case Part::norm:
      return set.has(Recompute::norm);
    case Part::projection:
      return set.has(Recompute::attention);
    case Part::mla_up:
      return set.has(Recompute::attention) || set.has(Recompute::mla_up_projection);
    case Part::core:
      return set.has(Recompute::attention) || set.has(Recompute::core_attention);
    case Part::mlp:
      return !moe && set.has(Recompute::mlp);
    case Part::activation:
      return set.has(Recompute::activation) || set.has(moe ? Recompute::moe : Recompute::mlp);
    case Part::permute:
      return set.has(Recompute::permute) || set.has(Recompute::moe);
    case Part::router:
    case Part::exchange:
    case Part::experts:
      return set.has(Recompute::moe);
    case Part::head:
      return false;
  }
  return false;
}

}  // namespace trireme::model
