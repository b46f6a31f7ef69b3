#include "plan/plan.h"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace trireme::plan {

void to_json(nlohmann::json& j, const Plan& plan) {
  j = {{"mesh", plan.mesh},
       {"schedule", to_text(plan.schedule)},
       {"all_to_all", plan.all_to_all},
       {"num_micro_batches", plan.num_micro_batches},
       {"stages", plan.stages}};
  if (plan.grain != Grain::segment) j["grain"] = plan.grain;
}

void from_json(const nlohmann::json& j, Plan& plan) {
  plan = Plan{};
  j.at("mesh").get_to(plan.mesh);
  plan.grain = j.value("grain", Grain::segment);
  plan.schedule = parse_schedule(j.at("schedule").get<std::string>());
  j.at("all_to_all").get_to(plan.all_to_all);
  j.at("num_micro_batches").get_to(plan.num_micro_batches);
  j.at("stages").get_to(plan.stages);
}

std::vector<GroupKind> message_groups(const Plan& plan) {
  std::set<GroupKind> out;
  for (const StagePlan& stage : plan.stages)
    for (const Action& a : stage.actions)
      if (a.group.of_messages()) out.insert(a.group);
  return {out.begin(), out.end()};
}

std::uint64_t hash(const Plan& plan) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (const unsigned char byte : nlohmann::json(plan).dump()) h = (h ^ byte) * 0x100000001b3ull;
  return h;
}

std::string to_text(const Plan& plan) {
  std::string out = fmt::format("mesh {} ({})\n", dense_degrees(plan.mesh), expert_degrees(plan.mesh));
  out += to_text(plan.schedule);
  for (std::size_t stage = 0; stage < plan.stages.size(); ++stage) {
    const StagePlan& s = plan.stages[stage];
    out += fmt::format("stage {}:", stage);
    for (const Chunk& c : s.chunks) out += fmt::format(" layers {} to {},", c.first_layer, c.first_layer + c.num_layers);
    out += fmt::format(" {} actions, {} buffers, {} buckets\n", s.actions.size(), s.buffers.size(), s.buckets.size());
    for (const Action& a : s.actions)
      out += fmt::format("  {:>4} {:<16} {}{}\n", a.id, name_of(a.lane), describe(a),
                         a.waits.empty() ? "" : fmt::format("  after {}", fmt::join(a.waits, ", ")));
  }
  return out;
}

}  // namespace trireme::plan
