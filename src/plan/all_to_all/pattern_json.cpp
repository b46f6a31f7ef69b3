#include <nlohmann/json.hpp>

#include "plan/all_to_all/pattern.h"

namespace trireme::plan {

TRIREME_DEFINE_JSON(Block, source, destination)
TRIREME_DEFINE_ENUM_JSON(Rows, {{Rows::each, "each"}, {Rows::once, "once"}, {Rows::all, "all"}})
TRIREME_DEFINE_JSON(Parcel, sources, destinations, rows)
TRIREME_DEFINE_JSON(Transfer, from, to, parcels)
TRIREME_DEFINE_JSON(Phase, name, transfers, after, in_flight)
TRIREME_DEFINE_ENUM_JSON(Flow, {{Flow::dispatch, "dispatch"}, {Flow::combine, "combine"}})
TRIREME_DEFINE_JSON(Pattern, name, size, flow, phases)

}  // namespace trireme::plan
