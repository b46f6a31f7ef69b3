#include "model/precision.h"

#include <array>
#include <stdexcept>
#include <utility>

namespace trireme::model {

namespace {
constexpr std::array<std::pair<ComputeFormat, const char*>, 6> formats{{{ComputeFormat::float32, "float32"},
                                                                        {ComputeFormat::bfloat16, "bfloat16"},
                                                                        {ComputeFormat::float16, "float16"},
                                                                        {ComputeFormat::float8, "float8"},
                                                                        {ComputeFormat::mxfp8, "mxfp8"},
                                                                        {ComputeFormat::nvfp4, "nvfp4"}}};
}  // namespace

const char* name_of(ComputeFormat format) {
  for (const auto& [f, name] : formats)
    if (f == format) return name;
  return "";
}

ComputeFormat compute_format_from_name(const std::string& name) {
  for (const auto& [f, known] : formats)
    if (name == known) return f;
  throw std::invalid_argument(name);
}

}  // namespace trireme::model
