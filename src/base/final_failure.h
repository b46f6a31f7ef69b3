// A failure that another start from the same checkpoint would only repeat, such as a loss that exploded. It ends the program
// as every RuntimeFailure does; a launcher that starts ranks again does not after it.
#pragma once
#include "base/errors.h"

namespace trireme {

class FinalFailure : public RuntimeFailure {
 public:
  using RuntimeFailure::RuntimeFailure;
};

}  // namespace trireme
