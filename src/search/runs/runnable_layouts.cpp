#include "search/runs/runnable_layouts.h"

#include <algorithm>
#include <numeric>

#include "plan/layout_keys.h"
#include "plan/pieces.h"
#include "plan/runnable.h"

namespace trireme::search {

namespace {

constexpr std::int64_t most_sequences = 16;  // of a micro-batch, as in the search by bounds

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t at_most) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 1; d <= std::min(number, at_most); ++d)
    if (number % d == 0) out.push_back(d);
  return out;
}

// Layers of stages where the first one's embedding weighs as much as `first` layers and the last one's head as `last`;
// `late`: what does not divide goes to the later stages. Empty where a stage would have none.
std::vector<std::int64_t> weighted_split(int num_layers, int stages, int first, int last, bool late) {
  const int whole = num_layers + first + last;
  std::vector<std::int64_t> out(stages, whole / stages);
  for (int i = 0; i < whole % stages; ++i) ++out[late ? stages - 1 - i : i];
  out.front() -= first, out.back() -= last;
  return std::ranges::all_of(out, [](auto n) { return n > 0; }) ? out : std::vector<std::int64_t>{};
}

// The first is as even as possible, which is what an empty list says.
std::vector<std::vector<std::int64_t>> splits_of(int num_layers, int stages) {
  std::vector<std::vector<std::int64_t>> out = {{}};
  if (stages == 1) return out;
  std::vector<std::vector<std::int64_t>> seen = {weighted_split(num_layers, stages, 0, 0, false)};
  for (const int first : {0, 1})
    for (const int last : {0, 1, 2})
      for (const bool late : {false, true}) {
        auto split = weighted_split(num_layers, stages, first, last, late);
        if (split.empty() || std::ranges::find(seen, split) != seen.end()) continue;
        seen.push_back(split);
        out.push_back(std::move(split));
      }
  return out;
}

}  // namespace

std::optional<std::vector<plan::RunSpec>> runnable_layouts(const RunQuestion& q, std::size_t at_most) {
  plan::refuse_unrunnable({.file = "--set", .layout = q.run.layout});
  const plan::LayoutSpec& given = q.run.layout;
  const model::ModelSpec& m = q.run.model;
  const auto choices = [&](const char* key, std::int64_t value, std::vector<std::int64_t> otherwise) {
    return q.is_given(key) ? std::vector<std::int64_t>{value} : std::move(otherwise);
  };
  std::vector<plan::RunSpec> out;
  for (const std::int64_t pp : choices("layout.pp", given.pp, divisors(q.num_ranks, m.num_layers))) {
    const std::int64_t dp = q.num_ranks / pp, of_rank = q.run.batch.global_batch / dp;
    if (q.num_ranks % pp != 0 || q.run.batch.global_batch % dp != 0) continue;
    if (q.is_given("layout.dp") && given.dp != dp) continue;
    const auto splits = q.is_given("layout.stage_layers") ? std::vector<std::vector<std::int64_t>>{given.stage_layers}
                                                          : splits_of(m.num_layers, static_cast<int>(pp));
    std::vector<std::string> schedules = {given.schedule};
    if (!q.is_given("layout.schedule") && pp > 1) schedules = {"1f1b", "gpipe"};
    for (const std::int64_t ep : choices("layout.ep", given.ep, divisors(std::gcd(dp, m.moe.num_experts), dp))) {
      if (dp % ep != 0 || (m.moe.num_experts == 0 ? ep != 1 : m.moe.num_experts % ep != 0)) continue;
      for (const std::int64_t mb :
           choices("batch.micro_batch", q.run.batch.micro_batch, divisors(of_rank, most_sequences))) {
        if (of_rank % mb != 0 || of_rank / mb * m.num_layers > plan::most_layer_passes) continue;
        for (const std::string& schedule : schedules)
          for (const auto& split : splits) {
            plan::RunSpec run = q.run;
            run.batch.micro_batch = mb;
            plan::LayoutSpec& l = run.layout;
            l.pp = static_cast<int>(pp), l.dp = static_cast<int>(dp), l.ep = static_cast<int>(ep);
            l.schedule = schedule, l.stage_layers = split;
            if (!q.is_given("layout.all_to_all")) l.all_to_all = ep > 1 ? "auto" : "flat";
            if (!plan::stage_layers_fit(l, m.num_layers)) continue;
            if (out.size() == at_most) return std::nullopt;
            out.push_back(std::move(run));
          }
      }
    }
  }
  return out;
}

void hold_to_runnable(Question& q) {
  plan::refuse_unrunnable({.file = "--set", .layout = q.base.layout});
  for (const plan::LayoutKey& key : plan::layout_keys())
    if (!key.open_in_training) q.given.insert("layout." + key.name);
}

}  // namespace trireme::search
