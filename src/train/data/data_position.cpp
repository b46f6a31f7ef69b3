#include "train/data/data_position.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"

namespace trireme::train {
namespace {

std::string describe(const DataPosition& position) {
  std::vector<std::string> parts;
  for (const SetPosition& set : position.sets)
    if (set.weight > 0) parts.push_back(fmt::format("{} {}", set.name, set.weight));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string describe(const SetPosition& set) {
  return set.num_tokens == 0 ? "random tokens"
                             : fmt::format("{} tokens (fingerprint {})", set.num_tokens, set.fingerprint);
}

bool same_content(const SetPosition& a, const SetPosition& b) {
  return a.num_tokens == b.num_tokens && a.fingerprint == b.fingerprint;
}

// Which set of `before` one of the run's goes on from: that of its name, or else one of another name with its content
// that the run has not any more.
const SetPosition* found_in(const DataPosition& before, const DataPosition& now, const SetPosition& set) {
  const auto named = std::ranges::find(before.sets, set.name, &SetPosition::name);
  if (named != before.sets.end()) return &*named;
  for (const SetPosition& old : before.sets)
    if (old.num_tokens > 0 && same_content(old, set) &&
        std::ranges::find(now.sets, old.name, &SetPosition::name) == now.sets.end())
      return &old;
  return nullptr;
}

class Comparison {
 public:
  explicit Comparison(const Resuming& resuming) : resuming_(resuming) {}

  // Refuses the change, or says it loudly where checkpoint.allow_changes has `kind`.
  void changed(const char* kind, const std::string& key, const std::string& value, const std::string& what,
               const std::string& then) {
    if (std::ranges::find(resuming_.allowed, kind) == resuming_.allowed.end())
      throw ConfigError({.file = resuming_.file,
                         .key = key,
                         .value = value,
                         .allowed = fmt::format("{}. Resume with what it had, or let it pass with "
                                                "checkpoint.allow_changes = [\"{}\"]",
                                                what, kind)});
    say(fmt::format("WARNING: {} = {}: {}; checkpoint.allow_changes lets it pass: {}", key, value, what, then));
  }
  void say(std::string message) { messages.push_back(std::move(message)); }

  std::vector<std::string> messages;

 private:
  const Resuming& resuming_;
};

}  // namespace

Blend DataPosition::blend() const {
  std::vector<BlendShare> shares;
  for (const SetPosition& set : sets)
    if (set.weight > 0) shares.push_back({set.name, set.weight});
  return Blend(shares);
}

std::vector<std::int64_t> DataPosition::sequences_of_sets(std::int64_t sequences_seen) const {
  const std::vector<std::int64_t> taken = blend().taken(sequences_seen - blend_start);
  std::vector<std::int64_t> out;
  auto next = taken.begin();
  for (const SetPosition& set : sets) out.push_back(set.first + (set.weight > 0 ? *next++ : 0));
  return out;
}

std::map<std::string, std::int64_t> DataPosition::tokens_of_sets(std::int64_t sequences_seen) const {
  const std::vector<std::int64_t> sequences = sequences_of_sets(sequences_seen);
  std::map<std::string, std::int64_t> out;
  for (std::size_t i = 0; i < sets.size(); ++i)
    out[sets[i].name] = sets[i].tokens_before + (sequences[i] - sets[i].first) * sequence_length;
  return out;
}

ResumedPosition resume_position(const DataPosition& before, const DataPosition& now, const Resuming& resuming) {
  Comparison compare(resuming);
  if (before.seed != now.seed)
    compare.changed(
        "seed", "train.seed", fmt::format("{}", now.seed),
        fmt::format("the checkpoint's run had {}, which is another order of the data", before.seed),
        "each set goes on at its number in the new order, so in this epoch some sequences come again and some "
        "are left out");
  const bool cut_anew = before.sequence_length != now.sequence_length;
  if (cut_anew)
    compare.changed(
        "data", "batch.sequence_length", fmt::format("{}", now.sequence_length),
        fmt::format("the checkpoint's run had {}, which cuts other sequences", before.sequence_length),
        "each set goes on behind as many tokens as it has given, in another order, so in this epoch some text "
        "comes again and some is left out");
  if (before.reset_at_documents != now.reset_at_documents)
    compare.changed("data", "data.reset_at_documents", now.reset_at_documents ? "true" : "false",
                    fmt::format("the checkpoint's run had {}", before.reset_at_documents), "the order stays");

  const std::vector<std::int64_t> sequences = before.sequences_of_sets(resuming.sequences_seen);
  const auto tokens = before.tokens_of_sets(resuming.sequences_seen);
  DataPosition next = now;
  next.blend_start = resuming.sequences_seen;
  std::vector<const SetPosition*> kept;  // of before
  std::vector<std::string> added;
  bool same_blend = !cut_anew;
  for (SetPosition& set : next.sets) {
    const SetPosition* old = found_in(before, now, set);
    if (old != nullptr && !same_content(*old, set)) {
      compare.changed("data", "data.train", set.prefix,
                      fmt::format("holds {}, and the set \"{}\" of the checkpoint's run held {}", describe(set),
                                  old->name, describe(*old)),
                      "the set begins at its first sequence");
      kept.push_back(old);  // so that it does not stay on as a set of before
      same_blend = false;
      continue;
    }
    if (old == nullptr) {
      added.push_back(set.name);
      same_blend = false;
      continue;
    }
    kept.push_back(old);
    same_blend = same_blend && old->weight == set.weight;
    if (old->name != set.name) compare.say(fmt::format("data.train: \"{}\" is now named \"{}\"", old->name, set.name));
    const std::int64_t taken = sequences[static_cast<std::size_t>(old - before.sets.data())];
    // As many tokens on, rounded up to a sequence.
    set.first = cut_anew ? (taken * before.sequence_length + now.sequence_length - 1) / now.sequence_length : taken;
    set.tokens_before = tokens.at(old->name);
  }
  if (kept.empty())
    compare.changed("data", "data.train", describe(now),
                    fmt::format("no set of the checkpoint's run is left: it had {}", describe(before)),
                    "training goes on with the new sets from their first sequences");
  std::vector<std::string> removed;
  for (const SetPosition& old : before.sets) {
    if (std::ranges::find(kept, &old) != kept.end()) continue;
    if (old.weight > 0) removed.push_back(old.name), same_blend = false;
    if (std::ranges::find(now.sets, old.name, &SetPosition::name) != now.sets.end()) continue;
    // Kept, in case that it comes back.
    SetPosition rests = old;
    rests.weight = 0;
    rests.first = sequences[static_cast<std::size_t>(&old - before.sets.data())];
    rests.tokens_before = tokens.at(old.name);
    next.sets.push_back(std::move(rests));
  }
  if (same_blend) {
    next.blend_start = before.blend_start;
    for (std::size_t i = 0, k = 0; i < now.sets.size(); ++i, ++k) {
      next.sets[i].first = kept[k]->first;
      next.sets[i].tokens_before = kept[k]->tokens_before;
    }
  } else {
    std::vector<std::string> from;
    for (const SetPosition& set : next.sets)
      if (set.weight > 0) from.push_back(fmt::format("{} at its sequence {}", set.name, set.first));
    std::string changes;
    if (!added.empty()) changes += fmt::format("; added {}", fmt::join(added, ", "));
    if (!removed.empty()) changes += fmt::format("; removed {}", fmt::join(removed, ", "));
    compare.say(fmt::format("data.train: the blend was {} and is {}{}; {}", describe(before), describe(now), changes,
                            fmt::join(from, ", ")));
  }
  return {std::move(next), std::move(compare.messages)};
}

}  // namespace trireme::train
