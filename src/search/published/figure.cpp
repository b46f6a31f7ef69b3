#include "search/published/figure.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/flops.h"
#include "search/layouts/exact.h"
#include "sim/estimate/step_bound.h"

namespace trireme::search {

namespace {

using plan::FigureUnit;

double tokens(const sim::Setting& s) {
  return double(s.batch.global_batch) * double(s.batch.sequence_length);
}

// A step of this length in the figure's unit.
double in_unit(const plan::PublishedSpec& p, const Question& q, double step_s) {
  const sim::Setting& s = q.base;
  const double rate = tokens(s) / step_s / s.num_devices;
  const double flops = p.flops_per_token > 0
                           ? p.flops_per_token
                           : model::flops_per_token(s.model, s.batch.sequence_length, p.flops).total();
  switch (p.unit) {
    case FigureUnit::tokens_per_s_per_device:
      return rate;
    case FigureUnit::tokens_per_s:
      return rate * s.num_devices;
    case FigureUnit::tflops:
      return rate * flops / 1e12;
    case FigureUnit::mfu_percent:
      return 100 * rate * flops / (p.peak_flops_per_s > 0 ? p.peak_flops_per_s : q.target.peak_flops_per_s);
    case FigureUnit::step_s:
      return step_s;
  }
  return 0;
}

// Causal attention once forward and twice backward, without router: what no figure can leave out.
double peak_bound_s(const Question& q) {
  const sim::Setting& s = q.base;
  const double flops =
      model::flops_per_token(s.model, s.batch.sequence_length, {.router = false, .mtp = s.model.mtp_depth > 0}).total();
  return tokens(s) * flops * (s.execution.frozen_weights ? 2.0 / 3 : 1) / (q.target.peak_flops_per_s * s.num_devices);
}

double layout_bound_s(const Question& q) {
  sim::Setting s = q.base;
  s.layout.overlap = {.gradients = true, .parameters = true, .tensor = true, .experts = true, .pipeline = true};
  s.execution.newton_schulz_flops_per_s = 0;
  s.execution.reads_counts = false;
  sim::BoundWorkspace workspace;
  return sim::step_lower_bound_s(s, *q.target.ideal, workspace);
}

const char* name_of(BeyondBound b) {
  return b == BeyondBound::peak ? "peak" : "layout";
}

}  // namespace

Figure evaluate_figure(const plan::RunSpec& run, const Question& q) {
  const plan::PublishedSpec& p = *run.published;
  Figure f{.file = std::filesystem::path(run.file).filename().string(),
           .name = run.name,
           .model = run.model.name,
           .platform = q.target.platform,
           .unit = plan::unit_text(p.unit),
           .source = p.source,
           .devices = p.devices,
           .published = p.value,
           .low = p.low,
           .high = p.high,
           .assumed = p.assumed};
  ScheduleShelf shelf;
  sim::GridWorkspace workspace;
  const Estimate e = estimate(q, q.base, shelf, workspace, /*infeasible_too=*/true);
  f.predicted = in_unit(p, q, e.time.step_s);
  f.fits = e.feasible, f.needed_GB = e.needed_bytes / 1e9;
  if (!e.reasons.empty()) f.why_not = e.reasons.front();
  const bool less_is_better = p.unit == FigureUnit::step_s;
  const double peak_s = peak_bound_s(q), layout_s = layout_bound_s(q);
  f.bound_by = peak_s >= layout_s ? "peak" : "layout";
  f.bound = in_unit(p, q, std::max(peak_s, layout_s));
  // An "about" is beyond where all that it may mean is.
  const double kindest = p.low > 0 ? (less_is_better ? p.high : p.low) : p.value;
  const auto beyond = [&](double bound_s) {
    const double bound = in_unit(p, q, bound_s);
    return less_is_better ? kindest < bound : kindest > bound;
  };
  if (beyond(peak_s))
    f.beyond = BeyondBound::peak;
  else if (beyond(layout_s))
    f.beyond = BeyondBound::layout;
  return f;
}

nlohmann::json to_json(const std::vector<Figure>& figures) {
  nlohmann::json list = nlohmann::json::array();
  for (const Figure& f : figures) {
    nlohmann::json j{{"file", f.file},           {"name", f.name},           {"model", f.model},
                     {"platform", f.platform},   {"devices", f.devices},     {"unit", f.unit},
                     {"predicted", f.predicted}, {"published", f.published}, {"ratio", f.ratio()},
                     {"bound", f.bound},         {"bound_by", f.bound_by},   {"fits", f.fits},
                     {"needed_GB", f.needed_GB}, {"assumed", f.assumed},     {"source", f.source}};
    j["range"] = f.low > 0 ? nlohmann::json{f.low, f.high} : nlohmann::json(nullptr);
    j["beyond_bound"] = f.beyond == BeyondBound::no ? nlohmann::json(nullptr) : nlohmann::json(name_of(f.beyond));
    j["why_not"] = f.fits ? nlohmann::json(nullptr) : nlohmann::json(f.why_not);
    list.push_back(std::move(j));
  }
  return {{"figures", list}};
}

std::string to_text(const std::vector<Figure>& figures) {
  std::size_t width = 4;
  for (const Figure& f : figures) width = std::max(width, f.name.size());
  std::string out = fmt::format("{:<{}} {:>11} {:>11} {:>6} {:>11}  {}\n", "run", width, "predicted", "published",
                                "ratio", "at most", "unit");
  for (const Figure& f : figures) {
    out += fmt::format("{:<{}} {:>11.5g} {:>11.5g} {:>6.2f} {:>11.5g}  {}\n", f.name, width, f.predicted, f.published,
                       f.ratio(), f.bound, f.unit);
    if (f.beyond == BeyondBound::peak)
      out += "    the published figure is beyond the devices' peak\n";
    else if (f.beyond == BeyondBound::layout)
      out +=
          "    the published figure is beyond what this layout's compute and messages allow at the data sheet's "
          "rates\n";
    if (!f.fits) out += fmt::format("    does not fit as estimated: {}\n", f.why_not);
    for (const std::string& a : f.assumed) out += fmt::format("    assumed: {}\n", a);
    out += fmt::format("    from {}\n", f.source);
  }
  return out +
         "at most: the devices' peak, or this layout's compute and messages at the data sheet's rates, all hidden that "
         "can be\n";
}

}  // namespace trireme::search
