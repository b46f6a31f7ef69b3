// Processor seconds, user and system, that this process has used so far, all its threads together.
#pragma once

namespace trireme {

double processor_seconds();

}  // namespace trireme
