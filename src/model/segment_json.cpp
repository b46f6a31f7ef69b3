#include <nlohmann/json.hpp>

#include "model/segment.h"

namespace trireme::model {

TRIREME_DEFINE_ENUM_JSON(Segment, {{Segment::none, "none"},
                                   {Segment::embed, "embed"},
                                   {Segment::attention, "attention"},
                                   {Segment::dispatch, "dispatch"},
                                   {Segment::shared, "shared"},
                                   {Segment::experts, "experts"},
                                   {Segment::combine, "combine"},
                                   {Segment::mlp, "mlp"},
                                   {Segment::head, "head"}})

}  // namespace trireme::model
