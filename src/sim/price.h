// The price of every action and buffer of a plan on a platform.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "plan/run_files.h"
#include "platform/platform_spec.h"
#include "sim/operator_cost.h"
#include "sim/rates/make_rates.h"
#include "sim/simulate.h"

namespace trireme::sim {

struct Priced {
  plan::Costs costs;
  std::vector<std::vector<plan::MemoryPart>> constant;  // by stage: sums to its constant_bytes
  std::vector<Term> terms;                              // --explain: each different action once, with what it consists of
  std::vector<std::string> notes;                       // curves that stood in for ones that the platform lacks
  int threads = 1;                                      // of a rank; 0 on accelerators
  bool measured = false;                                // every curve used was
};

// Compute: the segments' operators by rates (operator_cost.h). Messages: bytes on the links
// (message_cost.h), every expert getting an equal share of the rows. Reductions: all-reduce of the bucket in reduce_dtype.
// Optimizer: its bytes at the measured rate of such a pass. ConfigError where the platform lacks a link that the mesh
// needs.
Priced price(const plan::Plan& plan, const plan::RunSpec& run, const platform::PlatformSpec& platform,
             const Software& software = {});

// What a run's ranks meet on a platform, in its dtype; `software` is what a data sheet's machine is run with.
std::unique_ptr<Rates> rates_of_run(const plan::RunSpec& run, const plan::Mesh& mesh,
                                    const platform::PlatformSpec& platform, const Software& software = {});

// Threads of a rank: run.device.threads, else the host's cores shared by its ranks, at least 1; 0 on accelerators.
int threads_of_rank(const plan::RunSpec& run, const platform::PlatformSpec& platform, int world);

// How the ranks of this mesh share the platform's hosts. `platform` is kept by reference.
SimulateOptions simulate_options(const plan::RunSpec& run, const platform::PlatformSpec& platform, const plan::Mesh& mesh,
                                 const Rates& rates);

// price() and simulate() together: everything that a run or a report needs.
struct Predicted {
  Priced priced;
  SimResult result;
  plan::Prediction prediction;
};
// On a host whose ranks share cores every rank is simulated. With measured noise the step is simulated num_noise_samples
// times and the one of median length is given. `measured`: a run's, for its actual expert load (sim/actual_load.h).
Predicted predict(const plan::Plan& plan, const plan::RunSpec& run, const platform::PlatformSpec& platform,
                  const std::vector<plan::MeasuredRank>& measured = {}, const Software& software = {});
inline constexpr int num_noise_samples = 9;

}  // namespace trireme::sim
