#include "search/validation/calibration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "search/validation/least_squares.h"
#include "search/validation/statistics.h"

namespace trireme::search {

namespace {

// Parameters are fitted as logarithms; shares between 0 and 1 as logits, so that no efficiency passes its data sheet.
enum class Scale { logarithm, logit };

struct Fitted {
  double deviation;  // of the prior, in its scale
  Scale scale;
};

// In the order of platform::device_parameter_names and stack_parameter_names. Families lie around the defaults, devices
// and releases around their family.
constexpr std::array<Fitted, platform::num_device_parameters> device_priors{{{0.4, Scale::logit},
                                                                             {0.4, Scale::logit},
                                                                             {0.5, Scale::logarithm},
                                                                             {0.4, Scale::logit},
                                                                             {0.3, Scale::logit},
                                                                             {0.5, Scale::logit},
                                                                             {0.5, Scale::logit},
                                                                             {0.2, Scale::logarithm}}};
constexpr std::array<Fitted, platform::num_stack_parameters> stack_priors{
    {{0.12, Scale::logarithm}, {1.0, Scale::logit}, {0.25, Scale::logarithm}}};
constexpr double unknown_load = 0.1;   // weight of a row whose expert load is assumed
constexpr double within_family = 0.4;  // of these deviations

double to_scale(double value, Scale scale) {
  return scale == Scale::logarithm ? std::log(value) : std::log(value / (1 - value));
}
double from_scale(double x, Scale scale) {
  return scale == Scale::logarithm ? std::exp(x) : 1 / (1 + std::exp(-x));
}

// Fits either families or, around a fit of families, the devices and stacks themselves.
class Fitter {
 public:
  Fitter(const std::vector<PreparedRow>& rows, const platform::StackProfile* families)
      : rows_(rows), families_(families == nullptr) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].has_measured_time()) continue;
      used_.push_back(i);
      add(devices_, device_name(i));
      add(stacks_, stack_name(i));
    }
    // An unknown stack keeps the defaults.
    problem_.num_parameters =
        devices_.size() * platform::num_device_parameters + stacks_.size() * platform::num_stack_parameters;
    const double narrower = families ? within_family : 1;
    for (const std::string& name : devices_) {
      platform::DeviceEfficiency device = families ? families->device(name) : platform::DeviceEfficiency{};
      for (std::size_t k = 0; k < platform::num_device_parameters; ++k)
        add_prior(*parameters(device)[k], device_priors[k], narrower);
    }
    for (const std::string& name : stacks_) {
      platform::StackBehaviour stack = families ? families->stack(name) : platform::StackBehaviour{};
      for (std::size_t k = 0; k < platform::num_stack_parameters; ++k)
        add_prior(*parameters(stack)[k], stack_priors[k], narrower);
    }
  }

  const std::vector<std::size_t>& used() const { return used_; }

  // `start` empty: from the priors.
  std::vector<double> fit_to(const std::vector<std::size_t>& rows, std::vector<double> start, int max_iterations) {
    LeastSquaresProblem p = problem_;
    p.num_residuals = rows.size();
    p.residual = [&](std::size_t i, const std::vector<double>& x) {
      return std::log(predicted(rows[i], x) / rows_[rows[i]].row.measured);
    };
    // A stack counts as a hundred rows at most, so that one large series does not decide for its device.
    std::map<std::string, int> count;
    for (std::size_t i : rows) ++count[rows_[i].resolved.facts.name];
    for (std::size_t i : rows) {
      p.weight.push_back(std::min(1.0, 100.0 / count[rows_[i].resolved.facts.name]));
      // Such a row measures a spread of routing that nobody published more than any efficiency.
      const auto& assumed = rows_[i].resolved.assumptions;
      if (std::find(assumed.begin(), assumed.end(), "expert load") != assumed.end()) p.weight.back() *= unknown_load;
    }
    for (std::size_t i : rows) {
      std::vector<std::size_t> on;
      const std::size_t d = index(devices_, device_name(i)), s = index(stacks_, stack_name(i));
      for (std::size_t k = 0; k < platform::num_device_parameters; ++k)
        on.push_back(d * platform::num_device_parameters + k);
      for (std::size_t k = 0; k < platform::num_stack_parameters; ++k)
        on.push_back(first_stack() + s * platform::num_stack_parameters + k);
      p.depends_on.push_back(std::move(on));
    }
    return search::fit(p, start.empty() ? problem_.prior : std::move(start), max_iterations).parameters;
  }

  double predicted(std::size_t row, const std::vector<double>& x) {
    return predict(rows_[row], device(index(devices_, device_name(row)), x), stack(index(stacks_, stack_name(row)), x),
                   workspace_);
  }

  platform::StackProfile profile(const std::vector<double>& x) const {
    platform::StackProfile p{.name = "published", .devices = {}, .stacks = {}};
    for (std::size_t d = 0; d < devices_.size(); ++d)
      p.devices.push_back({.device = devices_[d], .values = device(d, x)});
    for (std::size_t s = 0; s < stacks_.size(); ++s)
      if (!stacks_[s].empty()) p.stacks.push_back({.name = stacks_[s], .values = stack(s, x)});
    return p;
  }

 private:
  static void add(std::vector<std::string>& names, const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  static std::size_t index(const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) - names.begin();
  }
  std::string device_name(std::size_t row) const {
    return families_ ? platform::family_of_device(rows_[row].device()) : rows_[row].device();
  }
  std::string stack_name(std::size_t row) const {
    const std::string& name = rows_[row].resolved.facts.name;
    return families_ ? platform::family_of_stack(name) : name;
  }
  void add_prior(double value, const Fitted& f, double narrower) {
    problem_.prior.push_back(to_scale(value, f.scale));
    problem_.prior_deviation.push_back(f.deviation * narrower);
  }
  std::size_t first_stack() const { return devices_.size() * platform::num_device_parameters; }

  platform::DeviceEfficiency device(std::size_t d, const std::vector<double>& x) const {
    platform::DeviceEfficiency e;
    const auto slots = parameters(e);
    for (std::size_t k = 0; k < slots.size(); ++k)
      *slots[k] = from_scale(x[d * slots.size() + k], device_priors[k].scale);
    return e;
  }
  platform::StackBehaviour stack(std::size_t s, const std::vector<double>& x) const {
    platform::StackBehaviour b;
    if (stacks_[s].empty()) return b;
    const auto slots = parameters(b);
    for (std::size_t k = 0; k < slots.size(); ++k)
      *slots[k] = from_scale(x[first_stack() + s * slots.size() + k], stack_priors[k].scale);
    return b;
  }

  const std::vector<PreparedRow>& rows_;
  const bool families_;
  std::vector<std::size_t> used_;
  std::vector<std::string> devices_, stacks_;
  LeastSquaresProblem problem_;
  sim::GridWorkspace workspace_;
};

}  // namespace

Calibration calibrate(const std::vector<PreparedRow>& rows, const CalibrationOptions& options) {
  const auto say = [&](const std::string& text) {
    if (options.progress) options.progress(text);
  };
  Calibration out;
  out.fitted.assign(rows.size(), 0), out.model_left_out = out.row_left_out = out.fitted;
  Fitter families(rows, nullptr);
  const auto& used = families.used();
  say(fmt::format("fitting {} rows", used.size()));
  // Families first, then each device and release near its family. Returns predictions of the rows that `wanted` says.
  std::vector<double> family_start;
  const auto fit = [&](const std::vector<std::size_t>& kept, int iterations, std::vector<double>& into,
                       const auto& wanted) {
    const std::vector<double> of_families = families.fit_to(kept, family_start, iterations);
    const platform::StackProfile around = families.profile(of_families);
    Fitter members(rows, &around);
    const std::vector<double> x = members.fit_to(kept, {}, iterations);
    for (std::size_t i : used)
      if (wanted(i)) into[i] = members.predicted(i, x);
    if (family_start.empty()) family_start = of_families;
    platform::StackProfile profile = members.profile(x);
    for (const auto& d : around.devices)
      if (std::none_of(profile.devices.begin(), profile.devices.end(),
                       [&](const auto& e) { return e.device == d.device; }))
        profile.devices.push_back(d);
    for (const auto& s : around.stacks)
      if (std::none_of(profile.stacks.begin(), profile.stacks.end(), [&](const auto& e) { return e.name == s.name; }))
        profile.stacks.push_back(s);
    return profile;
  };
  out.profile = fit(used, options.max_iterations, out.fitted, [](std::size_t) { return true; });
  const auto hold_out = [&](const auto& is_out, std::vector<double>& into) {
    std::vector<std::size_t> kept;
    for (std::size_t i : used)
      if (!is_out(i)) kept.push_back(i);
    fit(kept, std::min(options.max_iterations, 25), into, is_out);
  };
  if (options.leave_models_out) {
    std::set<std::string> models;
    for (std::size_t i : used) models.insert(rows[i].resolved.setting.model.name);
    for (const std::string& model : models) {
      say(fmt::format("leaving out {}", model));
      hold_out([&](std::size_t i) { return rows[i].resolved.setting.model.name == model; }, out.model_left_out);
    }
  }
  for (int fold = 0; fold < options.folds; ++fold) {
    say(fmt::format("fold {} of {}", fold + 1, options.folds));
    std::vector<std::size_t> place(rows.size(), 0);
    for (std::size_t k = 0; k < used.size(); ++k) place[used[k]] = k;
    hold_out([&](std::size_t i) { return static_cast<int>(place[i] % options.folds) == fold; }, out.row_left_out);
  }
  for (platform::StackEntry& s : out.profile.stacks) {
    std::vector<double> errors, held;
    for (std::size_t i : used)
      if (rows[i].resolved.facts.name == s.name) {
        errors.push_back(std::abs(out.fitted[i] / rows[i].row.measured - 1));
        if (out.model_left_out[i] > 0) held.push_back(std::abs(out.model_left_out[i] / rows[i].row.measured - 1));
      }
    s.rows = static_cast<int>(errors.size()), s.median_error = median(errors), s.held_out_error = median(held);
  }
  return out;
}

}  // namespace trireme::search
