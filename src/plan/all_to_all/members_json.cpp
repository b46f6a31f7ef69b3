#include <nlohmann/json.hpp>

#include "plan/all_to_all/members.h"

namespace trireme::plan {

TRIREME_DEFINE_JSON(Members, first, count, stride)

}  // namespace trireme::plan
