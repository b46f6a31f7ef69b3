#include "model/description/tape.h"

#include <algorithm>

#include "base/errors.h"

namespace trireme::model {

namespace {

using Flags = std::array<bool, Tape::max_tensors>;
using Numbers = std::array<std::int8_t, Tape::max_tensors>;  // small: counts, operators, tensors
static_assert(Tape::max_tensors < 127 && Tape::max_operators < 127);
constexpr int none = Tape::none;

// Who keeps which tensor after recomputation has had its say.
struct Keeping {
  const Tape& tape;
  Flags kept{};                                       // alive from forward to backward
  Flags dropped{};                                    // saved by somebody, but made again
  std::array<int, Tape::max_groups> first{}, last{};  // operators of a group; first > last: the group is empty

  explicit Keeping(const Tape& t) : tape(t) {
    first.fill(t.num_operators);
    last.fill(-1);
    for (int i = 0; i < t.num_operators; ++i) {
      const auto& op = t.operators[i];
      if (op.group == none) continue;
      first[op.group] = std::min(first[op.group], i);
      last[op.group] = std::max(last[op.group], i);
    }
    for (int i = 0; i < t.num_operators; ++i) {
      const auto& op = t.operators[i];
      for (int s : op.saved)
        if (s != none) (made_again(s, op.group) ? dropped : kept)[s] = true;
      // A group that runs again needs what enters it.
      if (op.group != none)
        for (int s : op.in)
          if (s != none && group_of(s) != op.group) (made_again(s, op.group) ? dropped : kept)[s] = true;
    }
    for (int s = 0; s < t.num_tensors; ++s) dropped[s] = dropped[s] && !kept[s];
  }

  int group_of(int tensor) const {
    const int producer = tape.tensors[tensor].producer;
    return producer == none ? none : tape.operators[producer].group;
  }
  bool made_again(int tensor, int user_group) const {
    const int group = group_of(tensor);
    return group != none && (group == user_group || tape.groups[group] == Rerun::output);
  }
};

struct Level {
  double now = 0, peak = 0;
  const char* at = "";
  void touch(double extra, const char* where) {
    if (now + extra > peak) peak = now + extra, at = where;
  }
};

void forward(const Tape& tape, const Keeping& keep, TapeMemory& out) {
  Numbers uses{};
  for (int i = 0; i < tape.num_operators; ++i) {
    for (int s : tape.operators[i].in)
      if (s != none) ++uses[s];
    for (int s : tape.operators[i].holds)
      if (s != none) ++uses[s];
  }
  Level level;
  for (int s = 0; s < tape.num_tensors; ++s)
    if (tape.tensors[s].producer == none) level.now += tape.tensors[s].bytes;
  level.touch(0, "input");
  for (int i = 0; i < tape.num_operators; ++i) {
    const auto& op = tape.operators[i];
    for (int s : op.out)
      if (s != none) level.now += tape.tensors[s].bytes;
    level.touch(op.forward_workspace, op.name);
    const auto release = [&](int s) {
      if (uses[s] == 0 && !keep.kept[s]) level.now -= tape.tensors[s].bytes;
    };
    for (int s : op.in)
      if (s != none && --uses[s] == 0) release(s);
    for (int s : op.holds)
      if (s != none && --uses[s] == 0) release(s);
    // Outputs for the backward only.
    if (i + 1 < tape.num_operators)
      for (int s : op.out)
        if (s != none && uses[s] == 0) release(s);
  }
  out.forward_peak = level.peak;
  out.forward_peak_at = level.at;
}

struct Backward {
  const Tape& tape;
  const Keeping& keep;
  bool delay_weights;
  Level level;
  std::array<double, Tape::max_tensors> gradient;  // bytes alive under this tensor's name
  Numbers alias;                                   // whose storage its gradient is; itself where it has its own
  Numbers holders{};                               // of a gradient's storage
  Flags alive{}, has{};
  Numbers first_user;  // operator that saves it and comes first: it lets go last
  std::array<bool, Tape::max_groups> ran{};
  double held = 0;
  Flags held_input{};

  void free_gradient(int s, bool stays) {
    if (!has[s]) return;
    has[s] = false;
    const int storage = alias[s];
    if (--holders[storage] > 0) return;
    if (stays)
      held += gradient[storage];
    else
      level.now -= gradient[storage];
  }

  void give_gradient(int s, int shared_with, const char* where) {
    const double bytes = tape.tensors[s].gradient_bytes;
    if (bytes <= 0) return;
    if (has[s]) {  // added to the one that is there: both for a moment
      if (shared_with == none) level.touch(bytes, where);
      return;
    }
    has[s] = true;
    if (shared_with != none) {
      alias[s] = alias[shared_with];
      ++holders[alias[s]];
      return;
    }
    alias[s] = s;
    holders[s] = 1;
    gradient[s] = bytes;
    level.now += bytes;
  }

  void run_again(int group) {
    if (group == none || ran[group]) return;
    ran[group] = true;
    double transient = 0;
    for (int i = keep.first[group]; i <= keep.last[group]; ++i) {
      const auto& op = tape.operators[i];
      if (op.group != group) continue;
      for (int s : op.in)  // what enters may itself have been dropped
        if (s != none && keep.dropped[s] && !alive[s]) run_again(keep.group_of(s));
      double passing = op.forward_workspace;
      for (int s : op.out) {
        if (s == none) continue;
        if (keep.dropped[s] && !alive[s])
          alive[s] = true, level.now += tape.tensors[s].bytes;
        else
          passing += tape.tensors[s].bytes;
      }
      for (int s : op.in)
        if (s != none && keep.group_of(s) == group && !keep.dropped[s] && !keep.kept[s])
          passing += tape.tensors[s].bytes;
      transient = std::max(transient, passing);
      level.touch(passing, op.name);
    }
  }

  void step(int i) {
    const auto& op = tape.operators[i];
    run_again(op.group);
    for (int s : op.saved)
      if (s != none && keep.dropped[s] && !alive[s]) run_again(keep.group_of(s));
    const int source = op.out[0];
    if (op.gradient_in_place && alive[op.in[0]] && !has[op.in[0]]) {
      const int s = op.in[0];
      alive[s] = false, has[s] = true, alias[s] = s, holders[s] = 1, gradient[s] = tape.tensors[s].bytes;
    }
    for (int s : op.in)
      if (s != none && !(op.gradient_in_place && s == op.in[0]))
        give_gradient(s, op.passes_gradient ? source : none, op.name);
    level.touch(op.backward_workspace + (delay_weights ? 0 : op.weight_workspace), op.name);
    const bool stays = delay_weights && op.has_weight;
    for (int k = 0; k < static_cast<int>(op.out.size()); ++k)
      if (op.out[k] != none) free_gradient(op.out[k], stays && k == 0);
    for (int s : op.saved) {
      if (s == none || first_user[s] != i || !alive[s]) continue;
      alive[s] = false;
      if (held_input[s])
        held += tape.tensors[s].bytes;
      else
        level.now -= tape.tensors[s].bytes;
    }
    if (op.group != none && keep.first[op.group] == i)
      for (int s = 0; s < tape.num_tensors; ++s)
        if (alive[s] && first_user[s] == i) alive[s] = false, level.now -= tape.tensors[s].bytes;
  }

  Backward(const Tape& t, const Keeping& k, bool delay) : tape(t), keep(k), delay_weights(delay) {
    first_user.fill(t.num_operators);
    for (int i = 0; i < t.num_operators; ++i) {
      const auto& op = t.operators[i];
      for (int s : op.saved)
        if (s != none) first_user[s] = std::min<std::int8_t>(first_user[s], i);
      if (op.group != none)
        for (int s : op.in)
          if (s != none && k.group_of(s) != op.group && (keep.kept[s] || keep.dropped[s]))
            first_user[s] = std::min<std::int8_t>(first_user[s], k.first[op.group]);
      if (delay && op.has_weight) held_input[op.saved[0] != none ? op.saved[0] : op.in[0]] = true;
    }
    for (int s = 0; s < t.num_tensors; ++s)
      if (keep.kept[s]) alive[s] = true, level.now += t.tensors[s].bytes;
    for (int s : t.operators[t.num_operators - 1].out)
      if (s != none && t.tensors[s].gradient_bytes > 0) give_gradient(s, none, "output");
    level.touch(0, "output's gradient");
    for (int i = t.num_operators - 1; i >= 0; --i) step(i);
  }
};

}  // namespace

int Tape::tensor(const char* name, double bytes) {
  return tensor(name, bytes, bytes);
}

int Tape::tensor(const char* name, double bytes, double gradient_bytes) {
  TRIREME_CHECK(num_tensors < max_tensors, "tape has no room for another tensor");
  tensors[num_tensors] = {.name = name, .bytes = bytes, .gradient_bytes = gradient_bytes};
  return num_tensors++;
}

Tape::Operator& Tape::add(const Operator& op) {
  TRIREME_CHECK(num_operators < max_operators, "tape has no room for another operator");
  for (int s : op.out)
    if (s != none) tensors[s].producer = num_operators;
  return operators[num_operators++] = op;
}

TapeMemory run_tape(const Tape& tape, bool split) {
  TapeMemory out;
  if (tape.num_operators == 0) return out;
  const Keeping keep(tape);
  for (int s = 0; s < tape.num_tensors; ++s)
    if (keep.kept[s]) out.saved += tape.tensors[s].bytes;
  forward(tape, keep, out);
  const Backward whole(tape, keep, false);
  out.backward_peak = whole.level.peak;
  out.backward_peak_at = whole.level.at;
  if (!split) return out;
  const Backward inputs_only(tape, keep, true);
  out.input_peak = inputs_only.level.peak;
  out.input_peak_at = inputs_only.level.at;
  out.weight_held = inputs_only.held;
  double weight_workspace = 0;
  for (int i = 0; i < tape.num_operators; ++i)
    weight_workspace = std::max(weight_workspace, tape.operators[i].weight_workspace);
  out.weight_peak = out.weight_held + weight_workspace;
  return out;
}

std::array<bool, Tape::max_tensors> saved_tensors(const Tape& tape) {
  return Keeping(tape).kept;
}

}  // namespace trireme::model
