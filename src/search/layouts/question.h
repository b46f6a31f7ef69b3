// A question is what a search is asked: a model, a batch, a precision and a number of devices, with the parts of the
// layout that are given, and the target. Everything that is not given is searched. The words of a search (question,
// target; cell, family, recomputation, states) are explained in docs/search.md, "How pruning works".
#pragma once
#include <set>
#include <string>

#include "search/layouts/target.h"
#include "sim/estimate/setting.h"

namespace trireme::search {

struct Question {
  sim::Setting base;            // given values of its layout count; the others are replaced
  std::set<std::string> given;  // dotted keys: "layout.pp", "layout.overlap.experts", "batch.micro_batch"
  Target target;
  bool is_given(const std::string& key) const { return given.contains(key); }
};

}  // namespace trireme::search
