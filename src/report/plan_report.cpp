#include "report/plan_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "base/units.h"
#include "model/parameters.h"
#include "report/action_kinds.h"
#include "report/pattern_choice.h"
#include "report/text_table.h"

namespace trireme::report {

namespace {

constexpr int strip_width = 96;

struct Throughput {
  double tokens_per_s_per_device = 0, model_flops_per_s_per_device = 0, mfu = 0;
};

Throughput throughput(const PlanView& v) {
  const double world = v.plan.mesh.world(), step = v.prediction.step_s;
  Throughput out;
  if (step <= 0) return out;
  out.tokens_per_s_per_device = v.prediction.tokens_per_s / world;
  out.model_flops_per_s_per_device = v.prediction.model_flops_per_step / step / world;
  out.mfu = v.prediction.peak_flops_per_s > 0 ? out.model_flops_per_s_per_device / v.prediction.peak_flops_per_s : 0;
  return out;
}

double peak_bytes(const PlanView& v) {
  double out = 0;
  for (const plan::MemoryCurve& m : v.prediction.memory) out = std::max(out, m.peak_bytes);
  return out;
}

std::string layers_text(const plan::StagePlan& stage) {
  std::string out;
  for (const plan::Chunk& c : stage.chunks) {
    if (!out.empty()) out += " | ";
    if (c.embed) out += "embed ";
    if (c.num_layers > 0) out += fmt::format("layers {}-{}", c.first_layer, c.first_layer + c.num_layers - 1);
    if (c.head) out += " head";
  }
  return out;
}

// Slots of a long row are folded into lines that fit.
std::string grid_text(const plan::Schedule& schedule) {
  std::string out;
  std::size_t line_start = 0;
  const std::string text = to_text(schedule);
  while (line_start < text.size()) {
    const std::size_t end = std::min(text.find('\n', line_start), text.size());
    std::string line = text.substr(line_start, end - line_start);
    line_start = end + 1;
    const std::size_t bar = line.find("| ");
    const std::size_t indent = bar == std::string::npos ? 4 : bar + 2;
    while (line.size() > 108) {
      std::size_t cut = line.rfind(' ', 108);
      if (cut == std::string::npos || cut <= indent) break;
      out += "  " + line.substr(0, cut) + "\n";
      line = std::string(indent, ' ') + line.substr(cut + 1);
    }
    out += "  " + line + "\n";
  }
  return out;
}

std::string memory_text(const PlanView& v) {
  TextTable table({"stage", "constant", "saved", "boundary", "gradient", "batch", "workspace", "peak", "at", "while"}, /*last_left=*/true);
  for (std::size_t s = 0; s < v.prediction.memory.size(); ++s) {
    const plan::MemoryCurve& m = v.prediction.memory[s];
    const auto part = [&](const char* what) {
      for (const plan::MemoryPart& p : m.at_peak)
        if (p.what == what) return show_bytes(p.bytes);
      return std::string("-");
    };
    table.add({fmt::format("{}", s), part("parameters and optimizer"), part("saved"), part("boundary"), part("gradient"),
               part("batch"), part("workspace"), show_bytes(m.peak_bytes), show_seconds(m.peak_time_s),
               m.peak_action < 0 ? "-" : describe(v.plan.stages[s].actions[m.peak_action])});
  }
  std::string out = table.text();
  for (std::size_t s = 0; s < v.prediction.constant.size(); ++s) {
    std::vector<std::string> parts;
    for (const plan::MemoryPart& p : v.prediction.constant[s]) parts.push_back(fmt::format("{} {}", p.what, show_bytes(p.bytes)));
    out += fmt::format("  stage {} holds all the time: {}\n", s, fmt::join(parts, ", "));
  }
  for (std::size_t s = 0; s < v.prediction.checkpoint_copy_bytes.size(); ++s)
    if (const double copy = v.prediction.checkpoint_copy_bytes[s]; copy > 0)
      out += fmt::format("  stage {}, first data rank, while a checkpoint is written: {} more, in host memory\n", s, show_bytes(copy));
  return out;
}

}  // namespace

std::vector<std::string> infeasibilities(const PlanView& v) {
  std::vector<std::string> out;
  const plan::Mesh& mesh = v.plan.mesh;
  if (v.platform.device.kind != "cpu") {
    for (std::size_t s = 0; s < v.prediction.memory.size(); ++s)
      if (v.prediction.memory[s].peak_bytes > v.platform.device.memory_bytes)
        out.push_back(fmt::format("stage {} needs {} on each rank; the device has {}", s,
                                  show_bytes(v.prediction.memory[s].peak_bytes), show_bytes(v.platform.device.memory_bytes)));
    return out;
  }
  const int per_host = v.platform.host.ranks > 0 ? v.platform.host.ranks : mesh.world();
  for (int first = 0; first < mesh.world(); first += per_host) {
    double sum = 0;
    const int last = std::min(first + per_host, mesh.world());
    for (int rank = first; rank < last; ++rank) {
      const auto stage = static_cast<std::size_t>(mesh.pp_index(rank));
      sum += v.prediction.memory[stage].peak_bytes + v.prediction.baseline_bytes;
      // Every parameter of the stage has one owner: the dense ones the first data rank, experts the first that hosts them.
      if (mesh.dp_index(rank) == 0 && stage < v.prediction.checkpoint_copy_bytes.size())
        sum += v.prediction.checkpoint_copy_bytes[stage];
    }
    if (sum > v.platform.host.memory_bytes)
      out.push_back(fmt::format("ranks {} to {} need {} together; their host has {}", first, last - 1, show_bytes(sum),
                                show_bytes(v.platform.host.memory_bytes)));
  }
  return out;
}

std::string plan_text(const PlanView& v) {
  const plan::Mesh& mesh = v.plan.mesh;
  const auto counts = model::count_parameters(v.run.model);
  const Throughput r = throughput(v);
  std::string out = fmt::format(
      "{}: {} ({} parameters, {} active a token) on {} ranks\n", printable(v.run.name), printable(v.run.model.name),
      show_count(static_cast<double>(counts.total)), show_count(static_cast<double>(counts.active)), mesh.world());
  out += fmt::format("platform {}{}\n\nLayout\n", v.prediction.platform, v.prediction.platform_measured ? " (measured)" : " (not all measured)");
  TextTable layout({"stage", "layers", "ranks", "actions", "buckets"});
  for (int s = 0; s < mesh.pp; ++s) {
    const plan::StagePlan& stage = v.plan.stages[s];
    layout.add({fmt::format("{}", s), layers_text(stage),
                mesh.stage_ranks() == 1 ? fmt::format("{}", mesh.rank(s, 0)) : fmt::format("{}-{}", mesh.rank(s, 0), mesh.rank(s, mesh.stage_ranks() - 1)),
                fmt::format("{}", stage.actions.size()), fmt::format("{}", stage.buckets.size())});
  }
  out += layout.text();
  out += fmt::format("  {}; experts over {}, each on {} {}; all-to-all {}\n", dense_degrees(mesh), expert_degrees(mesh), mesh.edp(),
                     mesh.edp() == 1 ? "rank" : "ranks", pattern_text(v.plan, v.prediction));
  out += fmt::format("  {} sequences of {} tokens a step: {} micro-batches of {} on each of {} data ranks\n",
                     v.run.batch.global_batch, v.run.batch.sequence_length, v.plan.num_micro_batches, v.run.batch.micro_batch,
                     mesh.dp);

  out += "\nSchedule\n" + grid_text(v.plan.schedule);
  out += fmt::format("\nPredicted step: {}  (compute lane: F forward, B backward, l loading, o norm and optimizer)\n",
                     show_seconds(v.prediction.step_s));
  for (int s = 0; s < mesh.pp; ++s)
    out += fmt::format("  stage {:>2} |{}|\n", s,
                       compute_strip(v.plan.stages[s], v.prediction.ranks[mesh.rank(s, 0)].spans, v.prediction.step_s, strip_width));
  out += fmt::format("\n  {:.0f} tokens/s ({:.0f} a rank), {:.2f} GFLOP/s of model work a rank, {:.1f} % of the peak\n",
                     v.prediction.tokens_per_s, r.tokens_per_s_per_device, r.model_flops_per_s_per_device / 1e9, 100 * r.mfu);

  out += "\nTime by action kind, a step, all ranks (waiting for partners included)\n";
  TextTable kinds({"kind", "lane", "actions", "total", "mean", "of lane time"});
  for (const KindTime& k : by_kind(v.plan, v.prediction.ranks))
    kinds.add({k.kind, name_of(k.lane), fmt::format("{}", k.count), show_seconds(k.total_s), show_seconds(k.total_s / k.count),
               fmt::format("{:.1f} %", 100 * k.total_s / (v.prediction.step_s * mesh.world()))});
  out += kinds.text();

  out += "\nMemory of a rank at its peak\n" + memory_text(v);
  const auto reasons = infeasibilities(v);
  out += reasons.empty() ? "\nIt fits.\n" : "\nIt does NOT fit:\n";
  for (const std::string& reason : reasons) out += "  " + reason + "\n";
  return out;
}

nlohmann::json plan_json(const PlanView& v) {
  const auto counts = model::count_parameters(v.run.model);
  const Throughput r = throughput(v);
  const auto reasons = infeasibilities(v);
  nlohmann::json memory = nlohmann::json::array(), timeline = nlohmann::json::array(), kinds = nlohmann::json::array();
  for (std::size_t s = 0; s < v.prediction.memory.size(); ++s) {
    const plan::MemoryCurve& m = v.prediction.memory[s];
    nlohmann::json parts = nlohmann::json::object(), constant = nlohmann::json::object();
    for (const plan::MemoryPart& p : m.at_peak) parts[p.what] = p.bytes;
    for (const plan::MemoryPart& p : v.prediction.constant[s]) constant[p.what] = p.bytes;
    memory.push_back({{"stage", s}, {"peak_bytes", m.peak_bytes}, {"peak_time_s", m.peak_time_s},
                      {"peak_action", m.peak_action < 0 ? "" : describe(v.plan.stages[s].actions[m.peak_action])},
                      {"at_peak", parts}, {"constant", constant},
                      {"checkpoint_copy_bytes", v.prediction.checkpoint_copy_bytes.at(s)}});
    const plan::RankTimeline& t = v.prediction.ranks[v.plan.mesh.rank(static_cast<int>(s), 0)];
    nlohmann::json spans = nlohmann::json::array();
    for (std::size_t i = 0; i < t.spans.size(); ++i)
      spans.push_back({{"action", describe(v.plan.stages[s].actions[i])}, {"lane", v.plan.stages[s].actions[i].lane},
                       {"start_s", t.spans[i].start_s}, {"end_s", t.spans[i].end_s}});
    timeline.push_back({{"stage", s}, {"rank", t.rank}, {"spans", spans}});
  }
  for (const KindTime& k : by_kind(v.plan, v.prediction.ranks))
    kinds.push_back({{"kind", k.kind}, {"lane", k.lane}, {"count", k.count}, {"total_s", k.total_s}});
  return {{"name", v.run.name},
          {"model", {{"name", v.run.model.name}, {"params_total", counts.total}, {"params_active", counts.active}}},
          {"mesh", v.plan.mesh},
          {"ranks", v.plan.mesh.world()},
          {"num_micro_batches", v.plan.num_micro_batches},
          {"schedule", to_text(v.plan.schedule)},
          {"all_to_all", pattern_json(v.plan, v.prediction)},
          {"platform", {{"name", v.prediction.platform}, {"measured", v.prediction.platform_measured}}},
          {"feasible", reasons.empty()},
          {"reasons", reasons},
          {"step_s", v.prediction.step_s},
          {"tokens_per_s", v.prediction.tokens_per_s},
          {"tokens_per_s_per_device", r.tokens_per_s_per_device},
          {"model_tflops_per_device", r.model_flops_per_s_per_device / 1e12},
          {"mfu", r.mfu},
          {"peak_memory_bytes", peak_bytes(v)},
          {"memory", memory},
          {"kinds", kinds},
          {"timeline", timeline}};
}

}  // namespace trireme::report
