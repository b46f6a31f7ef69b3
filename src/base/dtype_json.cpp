#include <nlohmann/json.hpp>

#include "base/dtype.h"

namespace trireme {

void to_json(nlohmann::json& j, const DType& dtype) {
  j = std::string(name_of(dtype));
}

void from_json(const nlohmann::json& j, DType& dtype) {
  dtype = dtype_from_name(j.get<std::string>());
}

}  // namespace trireme
