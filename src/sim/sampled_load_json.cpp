#include <nlohmann/json.hpp>

#include "sim/sampled_load.h"

namespace trireme::sim {

TRIREME_DEFINE_JSON_WITH_DEFAULT(RoutedLoad, cv, seed, counts)

}  // namespace trireme::sim
