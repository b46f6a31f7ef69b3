// A probed host in the terms of a data sheet, so that layouts can be searched for a machine that has curves only.
#pragma once
#include "platform/platform_spec.h"
#include "platform/stack_profile.h"

namespace trireme::platform {

// The platform with a data sheet made of its curves' highest points: a device is a rank with its share of the host
// (host.ranks, else host.cores of them), a node is the host. 16-bit formats that were not measured are as fast as
// float32. Unchanged where it has a data sheet.
PlatformSpec with_datasheet(PlatformSpec platform);

// What curves reach of that data sheet: nearly all, being measured.
DeviceEfficiency efficiency_of_curves(const PlatformSpec& platform);

}  // namespace trireme::platform
