#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "search/validation/prediction.h"

namespace trireme::search {

namespace {

bool blank_recompute(const Row& r) {
  return r.recompute.empty() || r.recompute == "per recipe";
}

// What makes two rows the same recipe. The model by its resolved name: sources spell names differently.
std::string recipe_key(const Row& r, const FindModel& find_model) {
  std::string reason;
  const auto model = find_model(r.model, reason);
  const auto number = [](const auto& v) { return v ? static_cast<long long>(*v) : 1LL; };
  return fmt::format("{} {} {} {} {} {} {} {} {}", model ? model->name : r.model, platform_of(r),
                     r.precision.find("BF16") != std::string::npos || r.precision.find("bf16") != std::string::npos,
                     number(r.devices), number(r.tp), number(r.pp), number(r.ep), number(r.micro_batch),
                     number(r.sequence));
}

// Releases in order: "megatron_bridge_26.04.01" of the same family sort as text.
bool same_family(const std::string& a, const std::string& b) {
  return a.substr(0, a.find_last_of('_')) == b.substr(0, b.find_last_of('_'));
}

}  // namespace

void borrow_blanks(std::vector<Row>& rows, const std::vector<Row>& references, const FindModel& find_model) {
  struct Source {
    const Row* row;
    std::string stack;
  };
  std::map<std::string, std::vector<Source>> known, recipes;
  const auto model_key = [&](const Row& r) {
    std::string reason;
    const auto model = find_model(r.model, reason);
    return (model ? model->name : r.model) + " " + platform_of(r);
  };
  const std::vector<Row> own = rows;
  for (const std::vector<Row>* from : {&own, &references})
    for (const Row& r : *from)
      if (!blank_recompute(r) || !r.overlap.empty()) {
        known[recipe_key(r, find_model)].push_back({&r, facts_of(r).name});
        recipes[model_key(r)].push_back({&r, facts_of(r).name});
      }
  for (Row& r : rows) {
    if (!blank_recompute(r) && !r.overlap.empty()) continue;
    const std::string stack = facts_of(r).name;
    // The same release first, then the first one after it, then the last one before it.
    const auto nearest = [&](const auto& from, const std::string& key, const auto& says) -> const Row* {
      const auto found = from.find(key);
      if (found == from.end()) return nullptr;
      const Source* best = nullptr;
      const auto rank = [&](const Source& s) { return s.stack == stack ? 0 : s.stack > stack ? 1 : 2; };
      for (const Source& s : found->second) {
        if (!same_family(s.stack, stack) || !says(*s.row)) continue;
        const bool nearer = !best || rank(s) < rank(*best) ||
                            (rank(s) == rank(*best) && (rank(s) == 1 ? s.stack < best->stack : s.stack > best->stack));
        if (nearer) best = &s;
      }
      return best ? best->row : nullptr;
    };
    const std::string key = recipe_key(r, find_model);
    if (blank_recompute(r))
      if (const Row* from = nearest(known, key, [](const Row& s) { return !blank_recompute(s); })) {
        r.recompute = from->recompute;
        r.borrowed.push_back("recompute of the same recipe");
      }
    if (r.overlap.empty()) {
      if (const Row* from = nearest(known, key, [](const Row& s) { return !s.overlap.empty(); })) {
        r.overlap = from->overlap;
        r.borrowed.push_back("overlap of the same recipe");
      } else if (stack.starts_with("megatron_bridge") && r.notes.find("token-drop") == std::string::npos) {
        // Its recipes of a model on a machine choose dispatcher and graphs alike whatever the format and the layout.
        // Whole iterations are captured in one format only.
        const Row* sister = nearest(recipes, model_key(r), [](const Row& s) {
          return !s.overlap.empty() && s.overlap.find("full") == std::string::npos;
        });
        if (sister) {
          r.overlap = sister->overlap;
          r.borrowed.push_back("overlap of another recipe of the model on this machine");
        }
      }
    }
  }
}

}  // namespace trireme::search
