#include <chrono>
#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/errors.h"
#include "base/json_text.h"
#include "model/flops.h"
#include "model/parameters.h"
#include "report/text_table.h"
#include "search/design/architectures.h"
#include "search/design/design.h"
#include "trireme/commands.h"
#include "trireme/layout_report.h"
#include "trireme/named_outputs.h"
#include "trireme/positive_number.h"
#include "trireme/standard_output.h"

namespace trireme::apps {

namespace {

struct Options {
  QuestionOptions question;
  double total_B = 0, active_B = 0, flops = 0, tokens = 0, tolerance = 0.05;
  std::vector<int> layers, hidden;
  std::string csv;
  int top = 5, threads = 0;
  bool json = false;
};

const char* const unknown_quality =
    "Ranked by speed at an equal budget. Which of them learns best is not known here: loss at equal parameters differs "
    "with depth, width, number of experts and attention, and only training tells.";

const char* const active_is_free =
    "No --active was given: architectures that use fewer of their parameters for a token train faster, so the smallest "
    "lead. With --active they are of equal work a token.";

// With a budget of parameters alone, a candidate's work a token is free.
bool compares_unequal_work(const Options& o) {
  return o.flops == 0 && o.active_B == 0;
}

struct Line {
  const search::Candidate& candidate;
  double total = 0, active = 0, flops = 0, tokens_per_s = 0, mfu = 0, days = 0;
};

Line line_of(const search::Candidate& c, const search::Question& q, double tokens) {
  Line l{c};
  const auto counts = model::count_parameters(c.model);
  l.total = double(counts.total), l.active = double(counts.active);
  l.flops = model::flops_per_token(c.model, q.base.batch.sequence_length, model::megatron_flops).total();
  if (!c.best) return l;
  l.tokens_per_s = c.best->tokens_per_s();
  l.mfu = c.best->time.tokens_per_s_per_device * l.flops / q.target.peak_flops_per_s;
  l.days = tokens > 0 ? tokens / l.tokens_per_s / 86400 : 0;
  return l;
}

nlohmann::json design_json(const Options& o, const ChosenQuestion& chosen,
                           const std::vector<search::Candidate>& candidates) {
  nlohmann::json list = nlohmann::json::array();
  for (const search::Candidate& c : candidates) {
    const Line l = line_of(c, chosen.question, o.tokens);
    nlohmann::json j = {{"name", c.model.name},
                        {"params_total", l.total},
                        {"params_active", l.active},
                        {"flops_per_token", l.flops},
                        {"layers", c.model.num_layers},
                        {"hidden", c.model.hidden},
                        {"experts", c.model.moe.num_experts},
                        {"expert_ffn", c.model.moe.expert_ffn},
                        {"shared_ffn", c.model.moe.shared_ffn},
                        {"top_k", c.model.moe.router.top_k},
                        {"dense_ffn", c.model.dense_ffn},
                        {"attention", c.model.attention.kind == model::AttentionKind::latent ? "mla" : "gqa"},
                        {"bound_s", c.bound_s},
                        {"reasons", c.reasons},
                        {"step_s", nullptr},
                        {"layout", nullptr}};
    if (c.best) {
      j["step_s"] = c.best->time.step_s;
      j["tokens_per_s"] = l.tokens_per_s;
      j["tokens_per_s_per_device"] = c.best->time.tokens_per_s_per_device;
      j["model_tflops_per_device"] = c.best->time.tokens_per_s_per_device * l.flops / 1e12;
      j["mfu"] = l.mfu;
      j["peak_memory_bytes"] = c.best->needed_bytes;
      j["layout"] = layout_json(c.best->setting);
      if (o.tokens > 0) j["days"] = l.days;
    }
    list.push_back(j);
  }
  nlohmann::json j = {{"candidates", list}, {"assumptions", chosen.assumptions}, {"not_known", unknown_quality}};
  if (compares_unequal_work(o)) j["note"] = active_is_free;
  return j;
}

std::string design_text(const Options& o, const ChosenQuestion& chosen,
                        const std::vector<search::Candidate>& candidates) {
  std::string out = fmt::format("{} architectures on {} x {}\n", candidates.size(), o.question.devices,
                                chosen.question.target.platform);
  for (const std::string& a : chosen.assumptions) out += "  assumed: " + a + "\n";
  std::vector<std::string> heading = {"", "architecture", "total", "active", "step s", "tokens/s", "MFU"};
  if (o.tokens > 0) heading.push_back("days");
  heading.push_back("layout");
  report::TextTable table(heading, true);
  std::size_t shown = 0;
  for (const search::Candidate& c : candidates) {
    if (!c.best || static_cast<int>(shown) == o.top) break;
    const Line l = line_of(c, chosen.question, o.tokens);
    std::vector<std::string> row = {std::to_string(++shown),
                                    c.model.name,
                                    report::show_count(l.total),
                                    report::show_count(l.active),
                                    fmt::format("{:.3f}", c.best->time.step_s),
                                    fmt::format("{:.4g}", l.tokens_per_s),
                                    fmt::format("{:.1f} %", 100 * l.mfu)};
    if (o.tokens > 0) row.push_back(fmt::format("{:.1f}", l.days));
    row.push_back(layout_line(c.best->setting));
    table.add(row);
  }
  if (shown == 0) {
    out += "\nNone of them fits.\n";
    for (const search::Candidate& c : candidates)
      if (!c.reasons.empty()) return out + fmt::format("  {}: {}\n", c.model.name, c.reasons[0]);
    return out;
  }
  out += "\n" + table.text() + "\n" + unknown_quality + "\n";
  return compares_unequal_work(o) ? out + active_is_free + "\n" : out;
}

std::string design_csv(const Options& o, const ChosenQuestion& chosen,
                       const std::vector<search::Candidate>& candidates) {
  std::string out = "name,params_total,params_active,flops_per_token,bound_s,step_s,tokens_per_s,mfu,layout\n";
  for (const search::Candidate& c : candidates) {
    const Line l = line_of(c, chosen.question, o.tokens);
    out += fmt::format("\"{}\",{:.0f},{:.0f},{:.6g},{:.6f},{},{},{},\"{}\"\n", c.model.name, l.total, l.active, l.flops,
                       c.bound_s, c.best ? fmt::format("{:.6f}", c.best->time.step_s) : "",
                       c.best ? fmt::format("{:.6g}", l.tokens_per_s) : "", c.best ? fmt::format("{:.4f}", l.mfu) : "",
                       c.best ? layout_line(c.best->setting) : "");
  }
  return out;
}

void design_command(const Options& o, const Context& context) {
  const auto fail = [](const char* key, std::string value, const char* allowed) {
    throw ConfigError({.key = key, .value = std::move(value), .allowed = allowed});
  };
  if (o.question.platform.empty()) fail("--platform", "", "is missing: the machine, a file or a name such as dgx_h100");
  if (o.question.devices <= 0) fail("--devices", "", "is missing: the number of devices");
  if (o.flops > 0 && o.tokens <= 0)
    fail("--flops", fmt::format("{}", o.flops), "needs --tokens: the tokens that they are for");
  if ((o.total_B > 0) == (o.flops > 0))
    fail("--params", fmt::format("{}", o.total_B), "either --params or --flops is the budget");
  if (o.active_B > o.total_B && o.total_B > 0)
    fail("--active", fmt::format("{}", o.active_B), "a part of --params: at most as many");
  for (const std::string& s : o.question.set)
    if (s.starts_with("model."))
      fail("--set", s, "a key of the layout, the batch or the precision: the model is what is designed");
  search::DesignSpace space;
  space.layers = o.layers, space.hidden = o.hidden;
  if (o.question.sequence > 0) space.sequence_length = o.question.sequence;
  const search::DesignBudget budget{.total = o.total_B * 1e9,
                                    .active = o.active_B * 1e9,
                                    .flops_per_token = o.flops > 0 ? o.flops / o.tokens : 0,
                                    .tolerance = o.tolerance};
  const std::vector<model::ModelSpec> models = search::architectures(budget, space);
  if (models.empty() && o.total_B > 1e6)
    fail("--params", fmt::format("{}", o.total_B), "billions of parameters: 100 is 100e9");
  if (models.empty())
    fail(o.flops > 0 ? "--flops" : "--params", fmt::format("{}", o.flops > 0 ? o.flops : o.total_B),
         "no architecture comes within the tolerance: try another --active, --layers, --hidden or a wider --tolerance");
  const ChosenQuestion chosen = choose_question(o.question, context, models.front());
  check_outputs({table_output("--csv", o.csv, "name")}, {{"--platform", o.question.platform}, {"--stack", o.question.stack}});
  using Clock = std::chrono::steady_clock;
  auto shown = Clock::now();
  const auto progress = [&shown](const search::DesignProgress& p) {
    if (Clock::now() - shown < std::chrono::seconds(1)) return;
    shown = Clock::now();
    std::fputs(
        (p.searching ? fmt::format("searching: architecture {} of {} by its bound, best step {}\n", p.done, p.all,
                                   p.best_step_s > 0 ? fmt::format("{:.3f} s", p.best_step_s) : "none yet")
                     : fmt::format("bounding: architecture {} of {}\n", p.done, p.all))
            .c_str(),
        stderr);
  };
  const auto candidates =
      search::design(chosen.question, models, {.top = o.top, .threads = o.threads, .progress = progress});
  if (!o.csv.empty()) write_file_atomically(o.csv, design_csv(o, chosen, candidates));
  write_output(o.json ? json_text(design_json(o, chosen, candidates), 1) + "\n" : design_text(o, chosen, candidates));
}

}  // namespace

void add_design_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("design", "Find the architectures of a budget that train fastest on a machine.");
  add_question_options(*c, options->question);
  c->add_option("--set", options->question.set, "KEY=VALUE...: fix a key of the layout, the batch or the precision");
  c->add_option("--params", options->total_B, "budget: parameters in billions")->check(positive_number());
  c->add_option("--active", options->active_B, "of them used by a token, in billions")->check(positive_number());
  c->add_option("--flops", options->flops, "budget: FLOPs of the whole training, with --tokens")
      ->check(positive_number());
  c->add_option("--tokens", options->tokens, "of the whole training")->check(positive_number());
  c->add_option("--tolerance", options->tolerance, "of the budget")
      ->check(number_between(0.001, 0.5))
      ->capture_default_str();
  c->add_option("--layers", options->layers, "only these depths")->check(whole_number(2, 1000));
  c->add_option("--hidden", options->hidden, "only these hidden sizes")->check(whole_number(256, 65536));
  c->add_option("--top", options->top, "architectures to rank exactly")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  c->add_option("--threads", options->threads, "of the search (default: all cores)")->check(whole_number(1, most_threads));
  c->add_option("--csv", options->csv, "write every architecture");
  c->add_flag("--json", options->json, "print one JSON object");
  c->callback([options, &context] { design_command(*options, context); });
}

}  // namespace trireme::apps
