#include <nlohmann/json.hpp>

#include "sim/estimate/step_model.h"

namespace trireme::sim {

TRIREME_DEFINE_JSON(EstimateTerm, what, seconds, source, formula)

}  // namespace trireme::sim
