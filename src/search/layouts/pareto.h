// What a step's speed costs: the fastest layout for each amount of memory left free, and for each number of devices.
// Each point is the best of a search of its own; points that another beats in both are left out.
#pragma once
#include "search/layouts/layout_search.h"

namespace trireme::search {

struct ParetoFronts {
  std::vector<Estimate> headroom;  // by tokens a second, descending; memory left free ascending
  std::vector<Estimate> devices;   // by devices, ascending; tokens a second too
};

// Memory: the searched question's best, then with at most 90, 80, ... 50 % of the device's memory. Devices: an eighth
// to twice as many as asked for, in powers of two; the global batch stays, a number of devices that nothing fits is
// left out.
ParetoFronts pareto_fronts(const Question& question, const SearchResult& searched, const SearchOptions& options = {});

// Keeps, of points in any order, those that none beats in both `value`s (more is better).
std::vector<Estimate> pareto_front(std::vector<Estimate> points, double (*first)(const Estimate&),
                                   double (*second)(const Estimate&));

}  // namespace trireme::search
