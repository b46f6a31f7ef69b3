#include <nlohmann/json.hpp>

#include "plan/mesh.h"

namespace trireme::plan {

TRIREME_DEFINE_ENUM_JSON(Axis, {{Axis::world, "world"}, {Axis::pp, "pp"}, {Axis::dp, "dp"}, {Axis::ep, "ep"}, {Axis::edp, "edp"}, {Axis::embedding, "embedding"}})

}  // namespace trireme::plan
