#include <algorithm>
#include <map>

#include "base/errors.h"
#include "model/parameter_parts.h"
#include "model/parameters.h"
#include "plan/lowering/draft.h"

namespace trireme::plan {

ElementsByPart elements_by_part(const model::ModelSpec& model, const Mesh& mesh) {
  ElementsByPart out;
  for (const auto& p : model::parameters(model)) {
    auto& e = out[{p.layer, p.segment}];
    if (p.expert < 0)
      e.dense += static_cast<double>(p.count());
    else
      e.expert += static_cast<double>(p.count()) / mesh.ep;
  }
  // A tied head uses the embedding's matrix: a stage that has the head but not the embedding holds a copy of it.
  if (model.tied_embeddings)
    out[{-1, Segment::head}].dense += static_cast<double>(model::table_parameters(model));
  return out;
}

Draft add_gradient_reduction(Draft d, const model::ModelSpec& model, const ElementsByPart& elements, const Mesh& mesh,
                             double bucket_bytes, int bytes_per_element) {
  if (d.forward_only) return d;
  const bool first = std::any_of(d.chunks.begin(), d.chunks.end(), [](const Chunk& c) { return c.embed; });
  const bool last = std::any_of(d.chunks.begin(), d.chunks.end(), [](const Chunk& c) { return c.head; });
  const bool both_ends = first && last;

  // The backward, or weight half of one, that completes each part's gradient, in the order of the list.
  std::map<std::pair<int, Segment>, std::size_t> last_backward;
  for (std::size_t i = 0; i < d.actions.size(); ++i)
    if (const Action& a = d.actions[i].action; adds_gradients(a.kind)) last_backward[{a.layer, a.segment}] = i;
  // A tied pair on one stage is one parameter, which the later of the two completes.
  if (model.tied_embeddings && both_ends) {
    std::size_t& embed = last_backward[{-1, Segment::embed}];
    embed = std::max(embed, last_backward[{-1, Segment::head}]);
  }
  std::vector<std::pair<std::size_t, BucketPart>> complete;
  for (const auto& [part, at] : last_backward) complete.push_back({at, {part.first, part.second}});
  std::sort(complete.begin(), complete.end(), [](const auto& a, const auto& b) { return a.first < b.first; });

  struct Open {
    Bucket bucket;
    std::size_t full_at = 0;
  };
  std::vector<Open> closed;
  for (const bool expert : {false, true}) {
    Open open{.bucket = {.expert = expert}};
    for (const auto& [at, part] : complete) {
      const auto found = elements.find({part.layer, part.segment});
      if (found == elements.end()) continue;
      double n = expert ? found->second.expert : found->second.dense;
      // Counted with the embedding.
      if (!expert && model.tied_embeddings && both_ends && part.segment == Segment::head)
        n -= static_cast<double>(model::table_parameters(model));
      if (n <= 0) continue;
      if (!open.bucket.parts.empty() && (open.bucket.elements + n) * bytes_per_element > bucket_bytes) {
        closed.push_back(open);
        open = {.bucket = {.expert = expert}};
      }
      open.bucket.parts.push_back(part);
      open.bucket.elements += n;
      open.full_at = at;
    }
    if (!open.bucket.parts.empty()) closed.push_back(open);
  }
  std::stable_sort(closed.begin(), closed.end(), [](const Open& a, const Open& b) { return a.full_at < b.full_at; });

  std::multimap<std::size_t, DraftAction> insert_after;
  for (const Open& open : closed) {
    const int bucket = static_cast<int>(d.buckets.size());
    d.buckets.push_back(open.bucket);
    if ((open.bucket.expert ? mesh.edp() : mesh.dp * mesh.cp) == 1) continue;
    const DraftAction& last = d.actions[open.full_at];
    insert_after.emplace(open.full_at, d.make({.kind = ActionKind::reduce, .pass = Pass::backward, .lane = Lane::dp,
                                               .group = open.bucket.expert ? Axis::edp : mesh.data_group(), .bucket = bucket,
                                               .waits = {last.action.id}},
                                              last.slot));
  }
  std::vector<DraftAction> before = std::move(d.actions);
  d.actions.clear();
  d.actions.reserve(before.size() + closed.size() + 8);  // and the step's ends
  for (std::size_t i = 0; i < before.size(); ++i) {
    d.actions.push_back(std::move(before[i]));
    for (auto [at, end] = insert_after.equal_range(i); at != end; ++at) d.actions.push_back(at->second);
  }

  // Tied embeddings on two stages: both hold the matrix, and each has part of its gradient.
  if (model.tied_embeddings && d.num_stages > 1 && first != last) {
    Action sum{.kind = ActionKind::reduce_embedding, .pass = Pass::backward, .lane = Lane::dp, .group = embedding_group};
    for (const DraftAction& a : d.actions)
      if (adds_gradients(a.action.kind) && (a.action.segment == Segment::embed || a.action.segment == Segment::head))
        sum.waits = {a.action.id};
    d.actions.push_back(d.make(std::move(sum), d.num_slots));
  }
  return d;
}

}  // namespace trireme::plan
