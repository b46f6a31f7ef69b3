#include "plan/rendezvous.h"

#include <map>
#include <tuple>

#include <fmt/format.h>

#include "base/errors.h"
#include "plan/match_stages.h"

namespace trireme::plan {

namespace {

bool crosses_stages(const GroupKind& kind) {
  return kind.axes.has(Axis::pp);
}

bool is_collective(ActionKind kind) {
  return kind == ActionKind::count_tokens || kind == ActionKind::all_to_all || kind == ActionKind::reduce ||
         kind == ActionKind::gather || kind == ActionKind::reduce_embedding || kind == ActionKind::reduce_metrics ||
         kind == ActionKind::reduce_counts;
}

}  // namespace

std::string match_stages(const Plan& plan, Rendezvous& out) {
  const int num_stages = static_cast<int>(plan.stages.size());
  out.set_of.resize(num_stages);
  using Key =
      std::tuple<int, int, int, GroupKind>;  // from, to, pass of messages; of a collective -1, 0, 0 and its group
  std::map<Key, std::vector<int>> sets_of_key;
  std::map<std::pair<Key, int>, std::size_t> next;  // by key and side (a send's 0, a receive's 1; a collective's stage)
  std::vector<std::size_t> wanted;
  for (int stage = 0; stage < num_stages; ++stage) {
    out.set_of[stage].assign(plan.stages[stage].actions.size(), -1);
    for (const Action& a : plan.stages[stage].actions) {
      Key key;
      int side = stage;
      std::size_t members = 2;
      if (a.kind == ActionKind::send || a.kind == ActionKind::receive) {
        const bool sends = a.kind == ActionKind::send;
        key = {sends ? stage : a.peer_stage, sends ? a.peer_stage : stage, static_cast<int>(a.pass), {}};
        side = sends ? 0 : 1;
      } else if (is_collective(a.kind) && crosses_stages(a.group) && num_stages > 1) {
        key = {-1, 0, 0, a.group};
        if (a.group != embedding_group) members = num_stages;
      } else {
        continue;
      }
      auto& sets = sets_of_key[key];
      std::size_t& at = next[{key, side}];
      if (at == sets.size()) {
        sets.push_back(static_cast<int>(out.sets.size()));
        out.sets.emplace_back();
        wanted.push_back(members);
      }
      out.sets[sets[at]].push_back({stage, a.id});
      out.set_of[stage][a.id] = sets[at];
      ++at;
    }
  }
  for (std::size_t i = 0; i < out.sets.size(); ++i) {
    const Member first = out.sets[i].front();
    if (out.sets[i].size() != wanted[i])
      return fmt::format("stage {}: {} has {} of {} members", first.list,
                         describe(plan.stages[first.list].actions[first.action]), out.sets[i].size(), wanted[i]);
  }
  return "";
}

Rendezvous match(const Plan& plan) {
  Rendezvous out;
  const std::string wrong = match_stages(plan, out);
  TRIREME_CHECK(wrong.empty(), "{}", wrong);
  return out;
}

Rendezvous match_ranks(const Plan& plan) {
  const Rendezvous stages = match(plan);
  const Mesh& mesh = plan.mesh;
  Rendezvous out;
  for (int rank = 0; rank < mesh.world(); ++rank)
    out.set_of.emplace_back(plan.stages[mesh.pp_index(rank)].actions.size(), -1);
  const auto add = [&](std::vector<Member> members) {
    if (members.size() < 2) return;
    for (const Member& m : members) out.set_of[m.list][m.action] = static_cast<int>(out.sets.size());
    out.sets.push_back(std::move(members));
  };
  for (const auto& set : stages.sets) {
    const Action& first = plan.stages[set.front().list].actions[set.front().action];
    const bool whole_world = is_collective(first.kind) && first.group == world_group;
    std::vector<Member> everyone;
    for (int place = 0; place < mesh.stage_ranks(); ++place) {
      std::vector<Member> members;
      for (const Member& m : set) members.push_back({mesh.rank(m.list, place), m.action});
      if (whole_world)
        everyone.insert(everyone.end(), members.begin(), members.end());
      else
        add(std::move(members));
    }
    add(std::move(everyone));
  }
  for (int stage = 0; stage < mesh.pp; ++stage)
    for (const Action& a : plan.stages[stage].actions) {
      if (!is_collective(a.kind) || stages.set_of[stage][a.id] >= 0) continue;
      for (int place = 0; place < mesh.stage_ranks(); ++place) {
        const int rank = mesh.rank(stage, place);
        const auto group = mesh.group(a.group, rank);
        if (group.front() != rank) continue;
        std::vector<Member> members;
        for (const int r : group) members.push_back({r, a.id});
        add(std::move(members));
      }
    }
  return out;
}

}  // namespace trireme::plan
