#include "sim/rates/make_rates.h"

#include "base/errors.h"
#include "model/compute_dtype.h"
#include "sim/rates/probed_rates.h"
#include "sim/rates/sheet_rates.h"

namespace trireme::sim {

bool has_curves(const platform::PlatformSpec& platform) {
  return platform.datasheet.empty() || !platform.device.gemm.empty();
}

std::unique_ptr<Rates> make_rates(const platform::PlatformSpec& platform, const Software& software,
                                  const RatesOptions& options) {
  if (!has_curves(platform)) {
    if (options.dtype == DType::float64)
      throw ConfigError({.file = platform.name,
                         .key = "device.dtype",
                         .value = "float64",
                         .allowed = "is in no data sheet; one of float32, bfloat16, float16"});
    return std::make_unique<SheetRates>(platform, software.device, software.stack,
                                        model::format_of(options.dtype));
  }
  return std::make_unique<ProbedRates>(platform, options.dtype, options.threads, options.ranks_per_host);
}

}  // namespace trireme::sim
