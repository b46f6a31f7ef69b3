// The keys of [layout] that say the pipeline's schedule: schedule, schedule_file, virtual_stages. For layout_keys.cpp.
#pragma once
#include "plan/layout_keys.h"

namespace trireme::plan {

LayoutKey schedule_key();
LayoutKey schedule_file_key();
LayoutKey virtual_stages_key();

}  // namespace trireme::plan
