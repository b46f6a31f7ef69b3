#include "search/layouts/pareto.h"

#include <algorithm>

namespace trireme::search {

std::vector<Estimate> pareto_front(std::vector<Estimate> points, double (*first)(const Estimate&),
                                   double (*second)(const Estimate&)) {
  std::stable_sort(points.begin(), points.end(), [&](const Estimate& a, const Estimate& b) {
    return first(a) != first(b) ? first(a) > first(b) : second(a) > second(b);
  });
  std::vector<Estimate> out;
  for (Estimate& p : points)
    if (out.empty() || second(p) > second(out.back())) out.push_back(std::move(p));
  return out;
}

ParetoFronts pareto_fronts(const Question& question, const SearchResult& searched, const SearchOptions& given) {
  SearchOptions options = given;
  options.top = 1, options.keep_all = false;
  std::vector<Estimate> by_memory(searched.best.begin(), searched.best.end());
  if (!searched.best.empty())
    for (int percent = 90; percent >= 50; percent -= 10) {
      options.capacity_bytes = question.target.capacity_bytes * percent / 100;
      SearchResult r = search_layouts(question, options);
      if (r.best.empty()) break;  // less memory fits nothing either
      r.best[0].headroom_bytes = question.target.capacity_bytes - r.best[0].needed_bytes;
      by_memory.push_back(std::move(r.best[0]));
    }
  options.capacity_bytes = 0;
  std::vector<Estimate> by_devices;
  const std::int64_t devices = question.base.num_devices;
  for (const auto& [times, over] : {std::pair{1, 8}, {1, 4}, {1, 2}, {1, 1}, {2, 1}}) {
    if (devices % over != 0 || question.is_given("layout.dp")) continue;
    if (times == over) {
      if (!searched.best.empty()) by_devices.push_back(searched.best[0]);
      continue;
    }
    Question other = question;
    other.base.num_devices = static_cast<int>(devices * times / over);
    SearchResult r = search_layouts(other, options);
    if (!r.best.empty()) by_devices.push_back(std::move(r.best[0]));
  }
  ParetoFronts out;
  out.headroom = pareto_front(
      std::move(by_memory), [](const Estimate& e) { return e.tokens_per_s(); },
      [](const Estimate& e) { return e.headroom_bytes; });
  out.devices = pareto_front(
      std::move(by_devices), [](const Estimate& e) { return -double(e.setting.num_devices); },
      [](const Estimate& e) { return e.tokens_per_s(); });
  return out;
}

}  // namespace trireme::search
