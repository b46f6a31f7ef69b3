#include <nlohmann/json.hpp>

#include "sim/operator_cost.h"

namespace trireme::sim {

TRIREME_DEFINE_JSON(Term, what, seconds, source, formula)

}  // namespace trireme::sim
