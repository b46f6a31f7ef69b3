// Consecutive layers of a model, with or without the ends: a piece of a pipeline, or the whole model.
#pragma once
#include "base/json.h"

namespace trireme::model {

// Layers [first_layer, first_layer + num_layers).
struct LayerRange {
  int first_layer = 0;
  int num_layers = 0;
  bool embed = false;
  bool head = false;  // with the final norm
  bool mtp = false;   // the MTP blocks, which belong to whoever has the head
  bool operator==(const LayerRange&) const = default;
};
TRIREME_JSON(LayerRange)  // as in plan.json, where the MTP blocks always lie with the head

}  // namespace trireme::model
