#include "trireme/runnable_plan.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/json_text.h"
#include "model/untrainable.h"
#include "report/text_table.h"
#include "search/layouts/layout_search.h"
#include "trireme/found_run.h"
#include "trireme/layout_plan.h"
#include "trireme/run_search.h"
#include "trireme/standard_output.h"

namespace trireme::apps {

namespace {

using nlohmann::json;

struct Candidates {
  std::vector<plan::RunSpec> runs;
  double layouts = 0;  // that were to choose from
  bool all = true;     // every one of them is in `runs`
  std::vector<std::string> reasons;  // why none fits, where the bounds say so
};

// The best by bounds, as runs.
Candidates by_bounds(const search::RunQuestion& q, ChosenQuestion chosen, const RunnableOptions& o) {
  search::hold_to_runnable(chosen.question);
  const search::SearchResult found =
      search::search_layouts(chosen.question, {.top = o.top, .threads = o.threads, .progress = show_progress});
  Candidates out{.layouts = found.layouts, .all = false, .reasons = found.reasons};
  for (const search::Estimate& e : found.best) {
    plan::RunSpec run = q.run;
    run.layout = e.setting.layout;
    run.batch.micro_batch = e.setting.batch.micro_batch;
    if (plan::refused_keys(run.layout).empty()) out.runs.push_back(std::move(run));
  }
  return out;
}

json priced_json(const PricedRun& p) {
  json layout = plan::to_json(p.run.layout);
  layout["micro_batch"] = p.run.batch.micro_batch;
  return {{"step_s", p.step_s},
          {"tokens_per_s", p.tokens_per_s},
          {"peak_memory_bytes", p.peak_bytes},
          {"feasible", p.misfits.empty()},
          {"layout", layout}};
}

// Ranks of one host have the same way to each other. Unless its links were measured while all talk, other patterns than flat
// would be priced by a link alone, and flat by what it took: then it stands for all.
search::RunQuestion of_measured_patterns(search::RunQuestion q, const platform::PlatformSpec& platform) {
  const bool one_host = sim::has_curves(platform) && (platform.host.ranks == 0 || q.num_ranks <= platform.host.ranks);
  if (!one_host || !platform.shared_links.empty() || q.is_given("layout.all_to_all")) return q;
  q.given.insert("layout.all_to_all");
  q.run.layout.all_to_all = "flat";
  return q;
}

struct OfFewerRanks {
  int ranks = 1;
  PricedRun best;
};

// On one host the ranks share its cores: fewer of them may be faster.
std::vector<OfFewerRanks> of_fewer_ranks(search::RunQuestion q, const ChosenPlatform& platform, int threads) {
  std::vector<OfFewerRanks> out;
  if (!sim::has_curves(platform.spec) || platform.spec.device.kind != "cpu") return out;
  const int all = q.num_ranks;
  for (int ranks = 1; ranks < all; ++ranks) {
    if (all % ranks != 0) continue;
    q.num_ranks = ranks;
    const auto runs = search::runnable_layouts(q, most_listed);
    if (!runs || runs->empty()) continue;
    out.push_back({ranks, price_runs(*runs, ranks, platform, threads).front()});
  }
  return out;
}

std::vector<std::string> row_of(const std::string& first, const PricedRun& p) {
  return {first, report::show_seconds(p.step_s), fmt::format("{:.0f}", p.tokens_per_s),
          report::show_bytes(p.peak_bytes), p.misfits.empty() ? "yes" : "no", run_line(p.run)};
}

std::string found_text(const Candidates& candidates, const std::vector<PricedRun>& priced,
                       const std::vector<OfFewerRanks>& fewer, const RunnableOptions& o, double seconds) {
  std::string out =
      candidates.all
          ? fmt::format("\nOf the {} layouts that trireme train executes on these ranks, each simulated ({:.1f} s)\n",
                        priced.size(), seconds)
          : fmt::format("\nOf {:.3g} layouts that trireme train executes on these ranks, the best by bounds, each "
                        "simulated ({:.1f} s)\n",
                        candidates.layouts, seconds);
  report::TextTable table({"", "step", "tokens/s", "memory", "fits", "layout"}, /*last_left=*/true);
  for (std::size_t i = 0; i < priced.size() && i < static_cast<std::size_t>(o.top); ++i)
    table.add(row_of(fmt::format("{}", i + 1), priced[i]));
  out += table.text();
  if (fewer.empty()) return out;
  report::TextTable others({"ranks", "step", "tokens/s", "memory", "fits", "layout"}, true);
  for (const OfFewerRanks& f : fewer) others.add(row_of(fmt::format("{}", f.ranks), f.best));
  return out + "\nThe best of fewer ranks on this host\n" + others.text();
}

void say_that_nothing_fits(const Candidates& candidates, const search::RunQuestion& q, const RunnableOptions& o) {
  if (!o.out.empty())
    throw ConfigError({.key = "--out", .value = o.out, .allowed = "no layout fits: there is none to write"});
  if (o.output.json) {
    const json j = {{"feasible", false}, {"reasons", candidates.reasons}, {"search", {{"layouts", candidates.layouts}}}};
    write_output(json_text(j, 1) + "\n");
    return;
  }
  std::string text = fmt::format("No layout of {} ranks that trireme train executes fits.\n", q.num_ranks);
  for (const std::string& reason : candidates.reasons) text += "  " + reason + "\n";
  write_output(text);
}

}  // namespace

void plan_runnable(const search::RunQuestion& asked, const ChosenQuestion& chosen, const ChosenPlatform& platform,
                   const RunnableOptions& o) {
  const search::RunQuestion q = of_measured_patterns(asked, platform.spec);
  model::refuse_untrainable(q.run.model, q.run.file);
  const auto start = std::chrono::steady_clock::now();
  Candidates candidates;
  if (auto listed = search::runnable_layouts(q, most_listed)) {
    candidates.layouts = double(listed->size());
    candidates.runs = std::move(*listed);
  } else {
    candidates = by_bounds(q, chosen, o);
  }
  if (candidates.runs.empty() && !candidates.reasons.empty()) return say_that_nothing_fits(candidates, q, o);
  if (candidates.runs.empty())
    throw ConfigError({.file = q.run.file,
                       .key = "ranks",
                       .value = fmt::format("{}", q.num_ranks),
                       .allowed = fmt::format("no layout that trireme train executes has so many: stages are at most the {} "
                                              "layers, and data ranks divide the global batch of {} sequences",
                                              q.run.model.num_layers, q.run.batch.global_batch)});
  const std::vector<PricedRun> priced = price_runs(candidates.runs, q.num_ranks, platform, o.threads);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto fewer = of_fewer_ranks(q, platform, o.threads);

  const PricedRun& best = priced.front();
  RunPlan planned = make_run_plan(best.run, plan::resolve_mesh(best.run, q.num_ranks), platform.spec,
                                  {.keep = {}, .software = platform.software});
  planned.assumptions.insert(planned.assumptions.begin(), platform.assumptions.begin(), platform.assumptions.end());
  if (o.output.json) {
    json j = run_json(planned, platform.spec, o.output);
    const json found = priced_json(best);
    j["layout"] = found["layout"];
    j["unrunnable"] = json::array();
    j["search"] = {{"layouts", candidates.layouts}, {"simulated", priced.size()}, {"seconds", seconds}};
    j["runners_up"] = json::array();
    for (std::size_t i = 1; i < priced.size() && i < static_cast<std::size_t>(o.top); ++i)
      j["runners_up"].push_back(priced_json(priced[i]));
    j["fewer_ranks"] = json::array();
    for (const OfFewerRanks& f : fewer) {
      json of = priced_json(f.best);
      of["ranks"] = f.ranks;
      j["fewer_ranks"].push_back(std::move(of));
    }
    write_output(json_text(j, 1) + "\n");
  } else {
    write_output(run_text(planned, platform.spec, o.output));
    write_output(found_text(candidates, priced, fewer, o, seconds));
  }
  write_run_pages(planned, platform.spec, o.output);
  if (o.out.empty()) return;
  write_run(o.out, best.run,
            {fmt::format("Written by trireme plan for {} ranks of {}: {}.", q.num_ranks, platform.spec.name,
                         run_line(best.run)),
             fmt::format("Predicted: a step of {}, {} on a rank.", report::show_seconds(best.step_s),
                         report::show_bytes(best.peak_bytes))});
  if (!o.output.json) print_output("\nWritten to {}\n", o.out);
}

}  // namespace trireme::apps
