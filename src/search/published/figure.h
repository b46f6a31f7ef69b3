// A published figure of a run beside what is predicted of it, and beside what its hardware could do at most.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "plan/run_spec.h"
#include "search/layouts/question.h"

namespace trireme::search {

// What a figure cannot be beyond: the peak of all devices in the compute format; and, for the layout that is stated or
// assumed, its compute and messages at the data sheet's rates, everything hidden that can be, nothing ever waiting.
enum class BeyondBound { no, peak, layout };

struct Figure {
  std::string file, name, model, platform, unit, source;
  int devices = 0;
  double predicted = 0, published = 0;
  double low = 0, high = 0;  // of a figure given as "about"; 0: exact
  double bound = 0;          // the tighter of the two, in the figure's unit
  std::string bound_by;      // "peak" or "layout"
  BeyondBound beyond = BeyondBound::no;
  bool fits = true;      // in memory, as estimated
  std::string why_not;   // where not
  double needed_GB = 0;  // of the heaviest stage
  std::vector<std::string> assumed;
  double ratio() const { return predicted / published; }
  bool in_range() const { return low > 0 && predicted >= low && predicted <= high; }
};

// `question`: the run's setting with the target, everything given (given_layout). ConfigError where the layout
// breaks a rule.
Figure evaluate_figure(const plan::RunSpec& run, const Question& question);

nlohmann::json to_json(const std::vector<Figure>& figures);
std::string to_text(const std::vector<Figure>& figures);

}  // namespace trireme::search
