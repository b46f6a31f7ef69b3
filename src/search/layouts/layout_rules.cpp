#include "search/layouts/layout_rules.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "plan/mesh.h"
#include "plan/pieces.h"
#include "plan/pipeline/generators.h"

namespace trireme::search {

namespace {

using sim::Setting;

std::int64_t stage_ranks(const Setting& s) {
  return std::int64_t{1} * s.layout.dp * s.layout.cp * s.layout.tp;
}
bool is_moe(const Setting& s) {
  return s.model.moe.num_experts > 0;
}
bool interleaves(const Setting& s) {
  return s.layout.schedule == "interleaved_1f1b" || (s.layout.schedule == "merged_1f1b" && s.layout.virtual_stages > 1);
}
bool is_v(const Setting& s) {
  return plan::piece_map(s.layout.schedule) == plan::PieceMap::v;
}
int pieces(const Setting& s) {
  return s.layout.pp * s.layout.virtual_stages;
}

bool divides(std::int64_t part, std::int64_t whole) {
  return part > 0 && whole % part == 0;
}

std::string not_dividing(const char* key, std::int64_t value, const std::string& what, std::int64_t whole) {
  return fmt::format("{} = {} does not divide the {} {}", key, value, whole, what);
}

}  // namespace

int data_degree(const Setting& s) {
  const std::int64_t others = std::int64_t{1} * s.layout.pp * s.layout.tp * s.layout.cp;
  return divides(others, s.num_devices) ? static_cast<int>(s.num_devices / others) : 0;
}

double schedule_slots(const Setting& s) {
  const double micro_batches = double(s.batch.num_micro_batches(std::max(1, s.layout.dp)));
  const bool split = s.layout.schedule == "zero_bubble_h1" || is_v(s);
  return micro_batches * pieces(s) * (split ? 3 : 2);
}

const std::vector<LayoutRule>& degree_rules() {
  static const std::vector<LayoutRule> rules = {
      {"layout.dp", [](const Setting& s) { return s.layout.dp > 0 && data_degree(s) == s.layout.dp; },
       [](const Setting& s) {
         return fmt::format("pp {} x tp {} x cp {}{} does not make up {} devices", s.layout.pp, s.layout.tp,
                            s.layout.cp, s.layout.dp > 0 ? fmt::format(" x dp {}", s.layout.dp) : "", s.num_devices);
       }},
      {"layout.tp", [](const Setting& s) { return s.model.attention.num_heads % s.layout.tp == 0; },
       [](const Setting& s) {
         return not_dividing("layout.tp", s.layout.tp, "attention heads", s.model.attention.num_heads);
       }},
      {"layout.tp",
       [](const Setting& s) { return s.model.hidden % s.layout.tp == 0 && s.model.dense_ffn % s.layout.tp == 0; },
       [](const Setting& s) {
         const std::string width =
             s.model.dense_ffn > 0 ? fmt::format(" and the feed-forward width {}", s.model.dense_ffn) : "";
         return fmt::format("layout.tp = {} does not divide the hidden size {}{}", s.layout.tp, s.model.hidden, width);
       }},
      {"layout.tp",
       [](const Setting& s) {
         return s.layout.tp == 1 || !s.layout.sequence_parallel ||
                divides(s.layout.tp, s.batch.micro_batch * s.batch.sequence_length / s.layout.cp);
       },
       [](const Setting& s) {
         return fmt::format("sequence parallelism: layout.tp = {} does not divide the {} tokens of a micro-batch",
                            s.layout.tp, s.batch.micro_batch * s.batch.sequence_length / s.layout.cp);
       }},
      {"layout.cp",
       [](const Setting& s) { return s.layout.cp == 1 || divides(2 * s.layout.cp, s.batch.sequence_length); },
       [](const Setting& s) {
         return fmt::format("layout.cp = {}: a sequence of {} tokens has no {} equal chunks, two for each rank",
                            s.layout.cp, s.batch.sequence_length, 2 * s.layout.cp);
       }},
      {"layout.ep", [](const Setting& s) { return is_moe(s) || (s.layout.ep == 1 && s.layout.etp == 1); },
       [](const Setting& s) {
         return fmt::format("layout.ep = {}, layout.etp = {}: the model has no experts", s.layout.ep, s.layout.etp);
       }},
      {"layout.ep", [](const Setting& s) { return !is_moe(s) || s.model.moe.num_experts % s.layout.ep == 0; },
       [](const Setting& s) { return not_dividing("layout.ep", s.layout.ep, "experts", s.model.moe.num_experts); }},
      {"layout.etp", [](const Setting& s) { return !is_moe(s) || s.model.moe.expert_ffn % s.layout.etp == 0; },
       [](const Setting& s) {
         return not_dividing("layout.etp", s.layout.etp, "columns of an expert", s.model.moe.expert_ffn);
       }},
      {"layout.ep",
       [](const Setting& s) {
         return !is_moe(s) || divides(std::int64_t{1} * s.layout.ep * s.layout.etp, stage_ranks(s));
       },
       [](const Setting& s) {
         return fmt::format("layout.ep {} x layout.etp {} does not divide the {} ranks of a stage", s.layout.ep,
                            s.layout.etp, stage_ranks(s));
       }},
      {"layout.order",
       [](const Setting& s) {
         return !is_moe(s) || s.layout.dp <= 0 ||
                !divides(std::int64_t{1} * s.layout.ep * s.layout.etp, stage_ranks(s)) ||
                plan::mesh_of(s.layout).stages_agree();
       },
       [](const Setting& s) { return "layout.order: " + plan::why_stages_differ(plan::mesh_of(s.layout)); }},
      {"batch.global_batch",
       // Without a data-parallel degree (layout.dp's rule has said so) there is nothing to divide by, and above no
       // order of ranks.
       [](const Setting& s) {
         return s.layout.dp <= 0 || divides(s.batch.micro_batch * s.layout.dp, s.batch.global_batch);
       },
       [](const Setting& s) {
         return fmt::format("a global batch of {} sequences is no multiple of micro-batch {} x dp {}",
                            s.batch.global_batch, s.batch.micro_batch, s.layout.dp);
       }},
      {"layout.pp", [](const Setting& s) { return s.layout.pp <= s.model.num_layers + s.model.mtp_depth; },
       [](const Setting& s) {
         return fmt::format("layout.pp = {}: the model has {} layers", s.layout.pp, s.model.num_layers);
       }},
  };
  return rules;
}

const std::vector<LayoutRule>& schedule_rules() {
  static const std::vector<LayoutRule> rules = {
      {"layout.virtual_stages",
       [](const Setting& s) {
         const int v = s.layout.virtual_stages;
         if (s.layout.schedule == "interleaved_1f1b") return v >= 2;
         return s.layout.schedule == "merged_1f1b" || v == plan::chunks_a_stage(s.layout.schedule);
       },
       [](const Setting& s) {
         return fmt::format("the schedule {} does not run with layout.virtual_stages = {}", s.layout.schedule,
                            s.layout.virtual_stages);
       }},
      {"layout.virtual_stages",
       [](const Setting& s) { return pieces(s) <= s.model.num_layers + s.model.mtp_depth + 2; },
       [](const Setting& s) {
         return fmt::format("layout.pp {} x layout.virtual_stages {} are more pieces than the {} layers", s.layout.pp,
                            s.layout.virtual_stages, s.model.num_layers);
       }},
      {"layout.schedule",
       [](const Setting& s) {
         return !interleaves(s) || s.layout.micro_batch_group > 0 ||
                divides(s.layout.pp, s.batch.num_micro_batches(s.layout.dp));
       },
       [](const Setting& s) {
         return fmt::format("{}: {} micro-batches are no multiple of {} stages", s.layout.schedule,
                            s.batch.num_micro_batches(s.layout.dp), s.layout.pp);
       }},
      {"layout.micro_batch_group",
       [](const Setting& s) {
         const std::int64_t group = s.layout.micro_batch_group, all = s.batch.num_micro_batches(s.layout.dp);
         return !interleaves(s) || group == 0 ||
                (group >= s.layout.pp && group <= all && (all % group == 0 || all % group >= s.layout.pp));
       },
       [](const Setting& s) {
         return fmt::format(
             "{}: groups of {} of {} micro-batches on {} stages; a group, the last one too, has at least "
             "one for each stage",
             s.layout.schedule, s.layout.micro_batch_group, s.batch.num_micro_batches(s.layout.dp), s.layout.pp);
       }},
      {"layout.stage_layers", [](const Setting& s) { return plan::stage_layers_fit(s.layout, s.model.num_layers); },
       [](const Setting& s) {
         return fmt::format(
             "layout.stage_layers: {} entries with {} layers in all, for {} pieces of {} layers",
             s.layout.stage_layers.size(),
             std::accumulate(s.layout.stage_layers.begin(), s.layout.stage_layers.end(), std::int64_t{0}), pieces(s),
             s.model.num_layers);
       }},
      {"layout.shard_degree",
       [](const Setting& s) {
         return s.layout.shard_degree == 0 ||
                divides(s.layout.shard_degree, std::int64_t{1} * s.layout.dp * s.layout.cp);
       },
       [](const Setting& s) {
         return not_dividing("layout.shard_degree", s.layout.shard_degree, "data ranks",
                             std::int64_t{1} * s.layout.dp * s.layout.cp);
       }},
      {"layout.expert_shard_degree",
       [](const Setting& s) {
         return s.layout.expert_shard_degree == 0 ||
                divides(s.layout.expert_shard_degree, stage_ranks(s) / (std::int64_t{1} * s.layout.ep * s.layout.etp));
       },
       [](const Setting& s) {
         return not_dividing("layout.expert_shard_degree", s.layout.expert_shard_degree, "ranks with the same experts",
                             stage_ranks(s) / (std::int64_t{1} * s.layout.ep * s.layout.etp));
       }},
      {"layout.schedule", [](const Setting& s) { return schedule_slots(s) <= most_slots; },
       [](const Setting& s) {
         return fmt::format(
             "{} micro-batches on {} stages are a schedule of {:.0f} million slots; at most {:.0f} are simulated",
             s.batch.num_micro_batches(s.layout.dp), s.layout.pp, schedule_slots(s) / 1e6, most_slots / 1e6);
       }},
  };
  return rules;
}

bool holds(const std::vector<LayoutRule>& rules, const Setting& setting) {
  return std::all_of(rules.begin(), rules.end(), [&](const LayoutRule& r) { return r.holds(setting); });
}

std::vector<std::string> broken_rules(const Setting& setting) {
  std::vector<std::string> out;
  const auto check = [&](const std::vector<LayoutRule>& rules) {
    for (const LayoutRule& r : rules)
      if (!r.holds(setting)) out.push_back(r.reason(setting));
  };
  check(degree_rules());
  // The rest speaks of micro-batches and of ranks of a stage.
  if (out.empty()) check(schedule_rules());
  return out;
}

}  // namespace trireme::search
