#include "plan/file_checks.h"

#include <cstdint>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "base/errors.h"

namespace trireme::plan {

namespace {

[[noreturn]] void fail(const std::string& file, std::string key, std::string value, std::string allowed) {
  throw ConfigError({.file = file, .key = std::move(key), .value = std::move(value), .allowed = std::move(allowed)});
}

std::string number(auto n) { return fmt::format("{}", n); }

void check_mesh(const Mesh& m, const std::string& file) {
  std::int64_t world = 1, expert_ranks = 1;
  const auto degree = [&](const char* name, int value, std::int64_t* product) {
    if (value < 1 || value > most_ranks) fail(file, fmt::format("mesh.{}", name), number(value), fmt::format("must lie in [1, {}]", most_ranks));
    *product *= value;
    if (*product > most_ranks) fail(file, "mesh", fmt::format("{} or more ranks", *product), fmt::format("a plan has at most {}", most_ranks));
  };
  for (const auto& [name, value] : {std::pair{"pp", m.pp}, {"dp", m.dp}, {"cp", m.cp}, {"tp", m.tp}}) degree(name, value, &world);
  for (const auto& [name, value] : {std::pair{"ep", m.ep}, {"etp", m.etp}}) degree(name, value, &expert_ranks);
  if (world / m.pp % expert_ranks != 0)
    fail(file, "mesh.ep", number(m.ep), fmt::format("times etp must divide the {} ranks of a stage", world / m.pp));
  if (!m.stages_agree()) fail(file, "mesh.order", to_text(m.order), why_stages_differ(m));
  if (m.ranks_of_host.empty()) return;
  std::int64_t ranks = 0;
  for (const int n : m.ranks_of_host) {
    if (n < 1) fail(file, "mesh.ranks_of_host", number(n), "must be at least 1");
    ranks += n;
  }
  if (ranks != world) fail(file, "mesh.ranks_of_host", number(ranks), fmt::format("must add up to the {} ranks", world));
}

void check_schedule(const Plan& plan, const std::string& file) {
  const Schedule& s = plan.schedule;
  const std::int64_t cells = std::int64_t{s.num_micro_batches} * s.num_chunks;
  if (s.num_micro_batches < 1 || s.num_chunks < 1 || s.num_micro_batches > most_layer_passes || cells > most_layer_passes)
    fail(file, "schedule", fmt::format("{} micro-batches, {} chunks", s.num_micro_batches, s.num_chunks),
         fmt::format("at least 1 of each, and at most {} together", most_layer_passes));
  if (s.num_micro_batches != plan.num_micro_batches)
    fail(file, "num_micro_batches", number(plan.num_micro_batches), fmt::format("must be the schedule's {}", s.num_micro_batches));
  if (s.num_stages != plan.mesh.pp)
    fail(file, "schedule", fmt::format("{} stages", s.num_stages), fmt::format("must be mesh.pp ({})", plan.mesh.pp));
}

void check_spans(const std::vector<Span>& spans, const std::vector<PhaseSpan>& phases, const std::string& at, const std::string& file) {
  const auto ordered = [&](const char* list, std::size_t i, const auto& span) {
    if (span.end_s < span.start_s)
      fail(file, fmt::format("{}{}[{}].end_s", at, list, i), number(span.end_s), fmt::format("must be at least start_s ({})", span.start_s));
  };
  for (std::size_t i = 0; i < spans.size(); ++i) ordered("spans", i, spans[i]);
  for (std::size_t i = 0; i < phases.size(); ++i) ordered("phases", i, phases[i]);
}

// Of each action of a rank: of its spans, and of its phases by number.
void check_of_actions(const std::vector<Span>& spans, const std::vector<PhaseSpan>& phases, std::size_t actions, const std::string& at,
                      const std::string& file) {
  if (spans.size() != actions) fail(file, at + "spans", number(spans.size()), fmt::format("as many as the plan's stage has actions: {}", actions));
  for (std::size_t i = 0; i < phases.size(); ++i)
    if (phases[i].action < 0 || static_cast<std::size_t>(phases[i].action) >= actions)
      fail(file, fmt::format("{}phases[{}].action", at, i), number(phases[i].action), fmt::format("the plan's stage has {} actions", actions));
}

}  // namespace

void check(const Plan& plan, const std::string& file) {
  check_mesh(plan.mesh, file);
  check_schedule(plan, file);
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const Chunk& c : plan.stages[s].chunks)
      if (std::int64_t{c.first_layer} + c.num_layers > INT32_MAX)
        fail(file, fmt::format("stages[{}].chunks", s), number(c.num_layers), "more layers than a model has");
  if (const auto wrong = problems(plan); !wrong.empty())
    fail(file, "", "", fmt::format("no rank could execute this plan: {}{}", wrong.front(),
                                   wrong.size() > 1 ? fmt::format(" (and {} more)", wrong.size() - 1) : ""));
}

void check(const Prediction& p, const std::string& file) {
  for (std::size_t r = 0; r < p.ranks.size(); ++r) check_spans(p.ranks[r].spans, p.ranks[r].phases, fmt::format("ranks[{}].", r), file);
}

void check(const MeasuredRank& m, const std::string& file) {
  check_spans(m.spans, m.phases, "", file);
}

void check(const Costs& costs, const std::string& file) {
  for (std::size_t s = 0; s < costs.stages.size(); ++s)
    for (std::size_t i = 0; i < costs.stages[s].exchanges.size(); ++i)
      check_spans({}, costs.stages[s].exchanges[i].phases, fmt::format("stages[{}].exchanges[{}].", s, i), file);
}

void check_fits(const Prediction& p, const Plan& plan, const std::string& file) {
  const auto world = static_cast<std::size_t>(plan.mesh.world()), stages = plan.stages.size();
  if (p.ranks.size() != world) fail(file, "ranks", number(p.ranks.size()), fmt::format("as many as the plan has: {}", world));
  for (std::size_t r = 0; r < world; ++r) {
    const std::string at = fmt::format("ranks[{}].", r);
    if (p.ranks[r].rank != static_cast<int>(r)) fail(file, at + "rank", number(p.ranks[r].rank), fmt::format("must be {}", r));
    const auto& actions = plan.stages.at(static_cast<std::size_t>(plan.mesh.pp_index(static_cast<int>(r)))).actions;
    check_of_actions(p.ranks[r].spans, p.ranks[r].phases, actions.size(), at, file);
  }
  const auto by_stage = [&](const char* key, std::size_t found) {
    if (found != stages) fail(file, key, number(found), fmt::format("one for each of the {} stages", stages));
  };
  by_stage("memory", p.memory.size());
  by_stage("constant", p.constant.size());
  if (!p.checkpoint_copy_bytes.empty()) by_stage("checkpoint_copy_bytes", p.checkpoint_copy_bytes.size());
  for (std::size_t s = 0; s < stages; ++s)
    if (p.memory[s].peak_action >= static_cast<int>(plan.stages[s].actions.size()))
      fail(file, fmt::format("memory[{}].peak_action", s), number(p.memory[s].peak_action),
           fmt::format("the plan's stage has {} actions", plan.stages[s].actions.size()));
}

void check_fits(const Costs& costs, const Plan& plan, const std::string& file) {
  if (costs.stages.size() != plan.stages.size())
    fail(file, "stages", number(costs.stages.size()), fmt::format("one for each of the plan's {} stages", plan.stages.size()));
  for (std::size_t s = 0; s < costs.stages.size(); ++s) {
    const auto aligned = [&](const char* key, std::size_t found, std::size_t wanted) {
      if (found != wanted) fail(file, fmt::format("stages[{}].{}", s, key), number(found), fmt::format("as many as the plan's stage has: {}", wanted));
    };
    aligned("action_s", costs.stages[s].action_s.size(), plan.stages[s].actions.size());
    aligned("action_workspace_bytes", costs.stages[s].action_workspace_bytes.size(), plan.stages[s].actions.size());
    aligned("buffer_bytes", costs.stages[s].buffer_bytes.size(), plan.stages[s].buffers.size());
  }
}

void check_fits(const std::vector<MeasuredRank>& measured, const Plan& plan, const std::string& folder) {
  std::set<int> seen;
  for (const MeasuredRank& m : measured) {
    const std::string at = fmt::format("rank {}: ", m.rank);
    if (m.rank >= plan.mesh.world()) fail(folder, "rank", number(m.rank), fmt::format("the plan has {} ranks", plan.mesh.world()));
    if (!seen.insert(m.rank).second) fail(folder, "rank", number(m.rank), "is that of two files");
    const std::size_t actions = plan.stages.at(static_cast<std::size_t>(plan.mesh.pp_index(m.rank))).actions.size();
    check_of_actions(m.spans, m.phases, actions, at, folder);
    const auto aligned = [&](const char* key, std::size_t found, std::size_t wanted) {
      if (found != 0 && found != wanted) fail(folder, at + key, number(found), fmt::format("none, or as many as it belongs to: {}", wanted));
    };
    aligned("action_s", m.action_s.size(), actions);
    aligned("expert_rows", m.expert_rows.size(), actions);
    aligned("phase_s", m.phase_s.size(), m.phases.size());
  }
}

}  // namespace trireme::plan
