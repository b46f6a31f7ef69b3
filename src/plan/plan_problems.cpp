#include <algorithm>
#include <array>
#include <map>
#include <set>

#include <fmt/format.h>

#include "plan/plan.h"
#include "plan/rendezvous.h"

namespace trireme::plan {

namespace {

// The latest action of every lane that is known to be complete when an action starts.
using Clock = std::array<int, num_lanes>;

struct Order {
  std::vector<Clock> before;  // by action

  explicit Order(const StagePlan& stage) {
    Clock none;
    none.fill(-1);
    std::array<Clock, num_lanes> after;
    after.fill(none);
    std::vector<Clock> done;
    before.reserve(stage.actions.size());
    done.reserve(stage.actions.size());
    const auto join = [](Clock& into, const Clock& other) {
      for (int i = 0; i < num_lanes; ++i) into[i] = std::max(into[i], other[i]);
    };
    for (const Action& a : stage.actions) {
      const int lane = static_cast<int>(a.lane);
      Clock clock = after[lane];
      for (int wait : a.waits)
        if (wait >= 0 && wait < static_cast<int>(done.size())) join(clock, done[wait]);
      before.push_back(clock);
      clock[lane] = a.id;
      done.push_back(clock);
      after[lane] = clock;
    }
  }
  bool is_before(const Action& earlier, const Action& later) const {
    return before[later.id][static_cast<int>(earlier.lane)] >= earlier.id;
  }
};

void check_buffers(const StagePlan& stage, const Order& order, const std::string& where,
                   std::vector<std::string>& out) {
  struct Life {
    int allocated = -1, freed = -1;
    std::vector<int> reads;
  };
  std::vector<Life> lives(stage.buffers.size());
  const auto valid = [&](int buffer, const Action& a) {
    if (buffer >= 0 && buffer < static_cast<int>(lives.size())) return true;
    out.push_back(fmt::format("{}: {} names buffer {}, of {}", where, describe(a), buffer, lives.size()));
    return false;
  };
  for (const Action& a : stage.actions) {
    for (int b : a.allocates)
      if (valid(b, a)) {
        if (lives[b].allocated >= 0) out.push_back(fmt::format("{}: {} allocates buffer {} again", where, describe(a), b));
        lives[b].allocated = a.id;
      }
    for (int b : a.reads)
      if (valid(b, a)) lives[b].reads.push_back(a.id);
    for (int b : a.frees)
      if (valid(b, a)) {
        if (lives[b].freed >= 0) out.push_back(fmt::format("{}: {} frees buffer {} a second time", where, describe(a), b));
        lives[b].freed = a.id;
      }
  }
  for (std::size_t b = 0; b < lives.size(); ++b) {
    const Life& life = lives[b];
    if (life.allocated < 0) {
      if (!life.reads.empty()) out.push_back(fmt::format("{}: buffer {} is read and never allocated", where, b));
      continue;
    }
    if (life.freed < 0) {
      out.push_back(fmt::format("{}: buffer {} ({}) is left alive", where, b, describe(stage.actions[life.allocated])));
      continue;
    }
    for (int read : life.reads) {
      if (!order.is_before(stage.actions[life.allocated], stage.actions[read]))
        out.push_back(fmt::format("{}: {} reads buffer {} before {} has filled it", where,
                                  describe(stage.actions[read]), b, describe(stage.actions[life.allocated])));
      if (read != life.freed && !order.is_before(stage.actions[read], stage.actions[life.freed]))
        out.push_back(fmt::format("{}: {} frees buffer {} while {} may read it", where,
                                  describe(stage.actions[life.freed]), b, describe(stage.actions[read])));
    }
  }
}

// At the grain of a chunk a stage's reduction is one action, after all gradients (and parts of it before, of a chunk each).
void check_stage_reduction(const StagePlan& stage, const Order& order, const std::string& where,
                           std::vector<std::string>& out) {
  int reductions = 0;
  for (const Action& reduce : stage.actions) {
    if (reduce.kind != ActionKind::reduce || reduce.chunk >= 0) continue;
    if (++reductions > 1) out.push_back(fmt::format("{}: gradients are reduced twice", where));
    for (const Action& a : stage.actions)
      if (adds_gradients(a.kind) && !order.is_before(a, reduce))
        out.push_back(fmt::format("{}: gradients are reduced before {} has added to them", where, describe(a)));
  }
}

void check_reductions(const Plan& plan, const StagePlan& stage, const Order& order, const std::string& where,
                      std::vector<std::string>& out) {
  if (plan.schedule.forward_only) return;
  if (plan.grain == Grain::chunk) return check_stage_reduction(stage, order, where, out);
  std::vector<int> reduced(stage.buckets.size(), -1);
  for (const Action& a : stage.actions) {
    if (a.kind != ActionKind::reduce) continue;
    if (a.bucket < 0 || a.bucket >= static_cast<int>(reduced.size())) {
      out.push_back(fmt::format("{}: {} names no bucket", where, describe(a)));
      continue;
    }
    if (reduced[a.bucket] >= 0) out.push_back(fmt::format("{}: bucket {} is reduced twice", where, a.bucket));
    reduced[a.bucket] = a.id;
  }
  std::map<std::pair<int, Segment>, std::vector<int>> adders;  // by part: actions that add to its gradients
  for (const Action& a : stage.actions)
    if (adds_gradients(a.kind)) adders[{a.layer, a.segment}].push_back(a.id);
  std::set<std::tuple<bool, int, Segment>> held;
  for (std::size_t i = 0; i < stage.buckets.size(); ++i) {
    const Bucket& bucket = stage.buckets[i];
    const int group = bucket.expert ? plan.mesh.edp() : plan.mesh.dp;
    if (group > 1 && reduced[i] < 0) out.push_back(fmt::format("{}: bucket {} is never reduced", where, i));
    for (const BucketPart& part : bucket.parts) {
      if (!held.insert({bucket.expert, part.layer, part.segment}).second)
        out.push_back(fmt::format("{}: {} of layer {} is in two buckets", where, model::name_of(part.segment), part.layer));
      if (reduced[i] < 0) continue;
      const auto of_part = adders.find({part.layer, part.segment});
      if (of_part == adders.end()) continue;
      for (const int id : of_part->second)
        if (const Action& a = stage.actions[id]; !order.is_before(a, stage.actions[reduced[i]]))
          out.push_back(fmt::format("{}: bucket {} is reduced before {} has added to it", where, i, describe(a)));
    }
  }
}

// Messages from one stage to a neighbour, and collectives that span stages, must be issued in the same order at both.
void check_messages(const Plan& plan, std::vector<std::string>& out) {
  const int stages = static_cast<int>(plan.stages.size());
  // From one stage to another, in one pass: by micro-batch and the piece of the model that the message is for.
  struct Way {
    std::vector<std::pair<int, int>> sent, received;
  };
  std::map<std::tuple<int, int, Pass>, Way> ways;
  for (int stage = 0; stage < stages; ++stage)
    for (const Action& a : plan.stages[stage].actions) {
      const bool sends = a.kind == ActionKind::send;
      if (!sends && a.kind != ActionKind::receive) continue;
      if (a.peer_stage < 0 || a.peer_stage >= stages) {
        out.push_back(fmt::format("stage {}: {} is with stage {}, of {}", stage, describe(a), a.peer_stage, stages));
        continue;
      }
      const int piece = a.chunk < 0 ? -1 : piece_of(plan.schedule, stage, a.chunk);
      const int step = !sends ? 0 : a.pass == Pass::forward ? 1 : -1;
      Way& way = sends ? ways[{stage, a.peer_stage, a.pass}] : ways[{a.peer_stage, stage, a.pass}];
      (sends ? way.sent : way.received).push_back({a.mb, piece < 0 ? -1 : piece + step});
    }
  for (const auto& [key, way] : ways) {
    const auto& [from, to, pass] = key;
    const auto& [sent, received] = way;
    const std::size_t shorter = std::min(sent.size(), received.size());
    for (std::size_t i = 0; i < shorter; ++i)
      if (sent[i] != received[i]) {
        const bool same_mb = sent[i].first == received[i].first;
        out.push_back(same_mb ? fmt::format("message {} from stage {} to {} is for piece {} of the model, and one for piece "
                                            "{} is awaited", i, from, to, sent[i].second, received[i].second)
                              : fmt::format("message {} from stage {} to {} is of micro-batch {}, and micro-batch {} is awaited",
                                            i, from, to, sent[i].first, received[i].first));
        break;
      }
    if (sent.size() != received.size())
      out.push_back(fmt::format("stage {} sends {} {} messages to stage {}, which receives {}", from, sent.size(),
                                pass == Pass::forward ? "forward" : "backward", to, received.size()));
  }
  for (const GroupKind& kind : {world_group, embedding_group}) {
    std::vector<ActionKind> expected;
    int expected_of = -1;
    for (int stage = 0; stage < stages; ++stage) {
      if (kind == embedding_group && stage != 0 && stage != stages - 1) continue;
      std::vector<ActionKind> issued;
      for (const Action& a : plan.stages[stage].actions)
        if (a.lane == Lane::dp && a.group == kind) issued.push_back(a.kind);
      if (expected_of < 0) {
        expected = issued;
        expected_of = stage;
      } else if (issued != expected) {
        out.push_back(fmt::format("stages {} and {} issue different collectives on {}", expected_of, stage, name_of(kind)));
      }
    }
  }
}

}  // namespace

std::vector<std::string> problems(const Plan& plan) {
  std::vector<std::string> out = problems(plan.schedule);
  if (static_cast<int>(plan.stages.size()) != plan.mesh.pp)
    out.push_back(fmt::format("{} stages for pp {}", plan.stages.size(), plan.mesh.pp));
  else if (plan.schedule.num_stages != plan.mesh.pp)
    out.push_back(fmt::format("a schedule of {} stages for pp {}", plan.schedule.num_stages, plan.mesh.pp));
  // What follows goes by the schedule's stages and chunks.
  if (!out.empty()) return out;
  bool sound = true;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::string where = fmt::format("stage {}", s);
    const StagePlan& stage = plan.stages[s];
    bool numbered = true;
    for (std::size_t i = 0; i < stage.actions.size(); ++i) {
      const Action& a = stage.actions[i];
      if (a.id != static_cast<int>(i)) {
        out.push_back(fmt::format("{}: action {} stands at place {}", where, a.id, i));
        numbered = false;
      }
      if (a.chunk >= plan.schedule.num_chunks || a.backward_chunk >= plan.schedule.num_chunks) {
        out.push_back(fmt::format("{}: {} is of a chunk that there is not: a stage has {}", where, describe(a), plan.schedule.num_chunks));
        sound = false;
      }
      if (a.bucket >= static_cast<int>(stage.buckets.size())) {
        out.push_back(fmt::format("{}: {} names no bucket", where, describe(a)));
        numbered = false;
      }
      if (std::max(a.group.from_stage, a.group.to_stage) >= plan.mesh.pp) {
        out.push_back(
            fmt::format("{}: {} is on group {}, of {} stages", where, describe(a), name_of(a.group), plan.mesh.pp));
        sound = false;
      }
      for (int wait : a.waits)
        if (wait < 0 || wait >= a.id) {
          out.push_back(fmt::format("{}: {} waits for action {}, which is not before it", where, describe(a), wait));
          numbered = false;
        }
    }
    if (!numbered) continue;
    const Order order(stage);
    check_buffers(stage, order, where, out);
    check_reductions(plan, stage, order, where, out);
  }
  if (sound) check_messages(plan, out);
  if (out.empty())
    if (std::string stuck = why_stuck(plan); !stuck.empty()) out.push_back(std::move(stuck));
  return out;
}

}  // namespace trireme::plan
