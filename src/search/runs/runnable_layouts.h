// The layouts that `trireme train` executes today, listed. On a few ranks they are few enough that each can be lowered
// and simulated, action by action.
#pragma once
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "plan/run_spec.h"
#include "search/layouts/question.h"

namespace trireme::search {

// A run whose layout is to be found. Its model, batch, data and device stay.
struct RunQuestion {
  plan::RunSpec run;            // values of its layout and of batch.micro_batch count where they are given; else replaced
  int num_ranks = 1;
  std::set<std::string> given;  // dotted keys: "layout.pp", "batch.micro_batch"
  bool is_given(const std::string& key) const { return given.contains(key); }
};

// In a fixed order: stages, ranks that share experts, micro-batch, schedule, layers of stages. Layers are as even as
// possible, or the first or last stage has one or two fewer, as the embedding and the head weigh there. Where experts
// are spread and no pattern is given, layout.all_to_all is auto: pricing takes the fastest. None: there are more than
// `at_most`. ConfigError where a given key is one that train refuses.
std::optional<std::vector<plan::RunSpec>> runnable_layouts(const RunQuestion& question, std::size_t at_most);

// Holds every key that training leaves no choice for at its default, so that a search of the question finds layouts that
// train executes (but for a stage without layers). ConfigError where such a key is given another value.
void hold_to_runnable(Question& question);

}  // namespace trireme::search
