#include "trireme/rehearsal_load.h"

#include <charconv>
#include <filesystem>

#include <fmt/format.h>

#include "base/errors.h"
#include "report/router_history.h"

namespace trireme::apps {

namespace {

constexpr double largest_cv = 10;

[[noreturn]] void refuse_load(const std::string& given, const std::string& allowed) {
  throw ConfigError({.key = "--load", .value = given, .allowed = allowed});
}

RehearsalLoad drawn(double cv, const std::string& by) {
  if (cv <= 0) return {.load = {}, .words = "spread evenly" + by};
  return {.load = {.cv = cv, .seed = 0, .counts = {}},
          .words = fmt::format("drawn for each layer and micro-batch, {:.0f} % of the mean as standard deviation{}", 100 * cv, by)};
}

RehearsalLoad of_run(const std::string& folder, const plan::RunSpec& run) {
  const report::RouterHistory history = report::read_router_history(std::filesystem::path(folder) / "metrics.jsonl");
  if (history.rows.empty()) refuse_load(folder, "a run's folder whose metrics.jsonl has rows by expert; this one has none");
  const auto experts = static_cast<std::size_t>(run.model.moe.num_experts);
  if (history.rows.front().size() != experts || static_cast<int>(history.rows.size()) != run.model.num_moe_layers() ||
      history.first_layer != run.model.num_dense_layers)
    refuse_load(folder, fmt::format("a run with {} layers of {} experts from layer {} on; this one has {} of {} from layer {} on", run.model.num_moe_layers(),
                                    experts, run.model.num_dense_layers, history.rows.size(), history.rows.front().size(), history.first_layer));
  RehearsalLoad out{.load = {}, .words = fmt::format("as in step {} of {}", history.rows_step, folder)};
  for (std::size_t i = 0; i < history.rows.size(); ++i)
    out.load.counts[history.first_layer + static_cast<int>(i)] = {history.rows[i].begin(), history.rows[i].end()};
  return out;
}

}  // namespace

RehearsalLoad rehearsal_load(const std::string& given, const plan::RunSpec& run, const plan::Mesh& mesh, const sim::Rates& rates) {
  if (mesh.ep == 1 || run.model.num_moe_layers() == 0) return {};
  if (given == "even") return drawn(0, "");
  if (given == "platform") {
    const double tokens = static_cast<double>(run.batch.micro_batch * run.batch.sequence_length * mesh.ep);
    const double cv = rates.load_cv(tokens);
    return drawn(cv, cv > 0 ? ", as the platform was probed" : ": the platform does not say how uneven routers are");
  }
  double cv = 0;
  const char* end = given.data() + given.size();
  if (const auto [at, error] = std::from_chars(given.data(), end, cv); error == std::errc() && at == end) {
    if (!(cv >= 0 && cv <= largest_cv)) refuse_load(given, fmt::format("a number between 0 and {}", largest_cv));
    return drawn(cv, "");
  }
  if (std::filesystem::is_directory(given)) return of_run(given, run);
  refuse_load(given, "must be platform, even, a standard deviation over the mean such as 0.3, or the folder of a run");
}

}  // namespace trireme::apps
