// Flat: every member sends every other its block directly, in one phase. (p - 1) messages a member.
#pragma once
#include "plan/all_to_all/pattern.h"

namespace trireme::plan {

Pattern flat(int size);


}  // namespace trireme::plan
