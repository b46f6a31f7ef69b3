// price_run RUN.toml PLATFORM.toml RANKS: the predicted step of a run, in seconds.
#include <cstdio>
#include <cstdlib>

#include "base/errors.h"
#include "base/version.h"
#include "plan/run_spec.h"
#include "platform/platform_file.h"
#include "report/text_table.h"
#include "sim/price.h"

int main(int argc, char** argv) {
  using namespace trireme;
  if (argc != 4) return exit_bad_input;
  try {
    const plan::RunSpec run = plan::load_run(argv[1]);
    const platform::PlatformSpec platform = platform::load_platform(argv[2]);
    plan::Mesh mesh = plan::resolve_mesh(run, std::atoi(argv[3]));
    mesh.ranks_of_host = plan::even_hosts(mesh.world(), platform.host.ranks);
    const auto predicted = sim::predict(plan::make_training_plan(run, mesh), run, platform);
    std::fprintf(stderr, "trireme %s: %s\n", version().data(), report::show_seconds(predicted.prediction.step_s).c_str());
    std::printf("%.17g\n", predicted.prediction.step_s);
  } catch (const ConfigError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return exit_bad_input;
  }
  return exit_ok;
}
