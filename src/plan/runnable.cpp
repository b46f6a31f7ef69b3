#include "plan/runnable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "plan/pipeline/generators.h"

namespace trireme::plan {

void refuse_unrunnable(const RunSpec& run) {
  const LayoutSpec& l = run.layout;
  const LayoutSpec plain;
  const auto hold = [&](bool right, const char* key, std::string value, const char* allowed) {
    if (!right)
      throw ConfigError({.file = run.file, .key = fmt::format("layout.{}", key), .value = std::move(value),
                         .allowed = fmt::format("{} in a training run (`trireme plan --model` answers for more)", allowed)});
  };
  if (const std::string reason = why_not_runnable(l.schedule); !reason.empty())
    throw ConfigError({.file = run.file, .key = "layout.schedule", .value = l.schedule,
                       .allowed = fmt::format("gpipe or 1f1b in a training run: {}", reason)});
  hold(l.tp == 1, "tp", fmt::format("{}", l.tp), "must be 1");
  hold(l.cp == 1, "cp", fmt::format("{}", l.cp), "must be 1");
  hold(l.etp == 1, "etp", fmt::format("{}", l.etp), "must be 1");
  hold(l.order == plain.order, "order", to_text(l.order), "must be \"tp-cp-ep-dp-pp\"");
  hold(l.expert_order == plain.expert_order, "expert_order", to_text(l.expert_order), "must be \"\"");
  hold(l.virtual_stages == 1, "virtual_stages", fmt::format("{}", l.virtual_stages), "must be 1");
  hold(l.sharding == Sharding::none, "sharding", name_of(l.sharding), "must be \"none\"");
  hold(l.recompute.empty(), "recompute", fmt::format("{}", names_of(l.recompute)), "must be empty");
  hold(l.swap.empty(), "swap", fmt::format("{}", names_of(l.swap)), "must be empty");
  hold(!l.matrix_owners, "matrix_owners", "true", "must be false");
  hold(l.overlap == plain.overlap, "overlap", "other than the defaults", "must keep its defaults");
}

}  // namespace trireme::plan
