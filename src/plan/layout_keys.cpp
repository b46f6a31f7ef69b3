#include "plan/layout_keys.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "plan/all_to_all/generators.h"
#include "plan/schedule_keys.h"

namespace trireme::plan {

namespace {

using nlohmann::json;
using Refusal = std::function<std::string(const LayoutSpec&)>;
using Names = const std::vector<std::string>&;

std::string anything(const LayoutSpec&) {
  return "";
}

constexpr int most = 1 << 20;

// Kinds of keys. `trained`: the one value that train executes; none: any.

template <int LayoutSpec::*field>
LayoutKey integer(std::string name, int least, std::string help, int trained = 0) {
  return {std::move(name), std::move(help),
          [least](ConfigTable& t, const std::string& key, Names, LayoutSpec& l) {
            l.*field = static_cast<int>(t.integer_or(key, l.*field, least, most));
          },
          [](const LayoutSpec& l) { return json(l.*field); },
          [trained](const LayoutSpec& l) {
            return trained == 0 || l.*field == trained ? "" : fmt::format("must be {}", trained);
          },
          trained == 0};
}

template <double LayoutSpec::*field>
LayoutKey number(std::string name, double least, double largest, std::string help) {
  return {std::move(name), std::move(help),
          [=](ConfigTable& t, const std::string& key, Names, LayoutSpec& l) {
            l.*field = t.number_or(key, l.*field, least, largest);
          },
          [](const LayoutSpec& l) { return json(l.*field); }, anything};
}

// `field`: gives the switch of a layout.
template <class Field>
LayoutKey on_or_off(std::string name, std::string help, Field field, Refusal refusal = anything,
                    bool open_in_training = true) {
  return {std::move(name), std::move(help),
          [field](ConfigTable& t, const std::string& key, Names, LayoutSpec& l) {
            field(l) = t.boolean_or(key, field(l));
          },
          [field](const LayoutSpec& l) {
            LayoutSpec copy = l;
            return json(field(copy));
          },
          std::move(refusal), open_in_training};
}

std::string one_of(ConfigTable& t, const std::string& key, const std::string& otherwise, Names names) {
  const std::string name = t.string_or(key, otherwise);
  if (std::ranges::find(names, name) == names.end())
    t.fail(key, fmt::format("must be one of {}", fmt::join(names, ", ")));
  return name;
}

template <auto field, class FromNames>
LayoutKey set_of_parts(std::string name, std::string help, FromNames from_names) {
  return {std::move(name), std::move(help),
          [from_names](ConfigTable& t, const std::string& key, Names, LayoutSpec& l) {
            try {
              l.*field = from_names(t.strings_or(key, names_of(l.*field)));
            } catch (const std::invalid_argument& e) {
              t.fail(key, e.what());
            }
          },
          [](const LayoutSpec& l) { return json(names_of(l.*field)); },
          [](const LayoutSpec& l) { return (l.*field).empty() ? "" : "must be empty"; }, false};
}

LayoutKey stage_layers_key() {
  return {"stage_layers", "layers of each stage, or of each of its chunks in the model's order; empty: as even as possible",
          [](ConfigTable& t, const std::string& key, Names, LayoutSpec& l) {
            l.stage_layers = t.integers_or(key, l.stage_layers, 0, most);
          },
          [](const LayoutSpec& l) { return json(l.stage_layers); },
          [](const LayoutSpec& l) {
            return std::ranges::find(l.stage_layers, 0) == l.stage_layers.end() ? "" : "must be positive";
          }};
}

LayoutKey all_to_all_key() {
  return {"all_to_all", "pattern of the experts' messages; auto: the one with the least predicted time",
          [](ConfigTable& t, const std::string& key, Names patterns, LayoutSpec& l) {
            l.all_to_all = one_of(t, key, l.all_to_all, patterns);
          },
          [](const LayoutSpec& l) { return json(l.all_to_all); },
          [](const LayoutSpec& l) {
            const auto names = pattern_names();
            const bool known = l.all_to_all == "auto" || std::ranges::find(names, l.all_to_all) != names.end();
            return known ? "" : fmt::format("must be one of {}", fmt::join(names, ", "));
          }};
}

LayoutKey sharding_key() {
  return {"sharding",
          "what data ranks keep a part of only: none, optimizer (ZeRO-1), gradients (2), parameters (3, FSDP)",
          [](ConfigTable& t, const std::string& key, Names, LayoutSpec& l) {
            l.sharding = sharding_from_name(one_of(t, key, name_of(l.sharding), sharding_names()));
          },
          [](const LayoutSpec& l) { return json(name_of(l.sharding)); },
          [](const LayoutSpec& l) { return l.sharding == Sharding::none ? "" : "must be \"none\""; }, false};
}

template <AxisOrder LayoutSpec::*field>
LayoutKey axis_order(std::string name, std::string help, AxisOrder (*from_text)(const std::string&)) {
  const auto refusal = [](const LayoutSpec& l) {
    const LayoutSpec usual;
    return l.*field == usual.*field ? "" : fmt::format("must be \"{}\"", to_text(usual.*field));
  };
  return {std::move(name), std::move(help),
          [from_text](ConfigTable& t, const std::string& key, Names, LayoutSpec& l) {
            try {
              l.*field = from_text(t.string_or(key, to_text(l.*field)));
            } catch (const std::invalid_argument& e) {
              t.fail(key, e.what());
            }
          },
          [](const LayoutSpec& l) { return json(to_text(l.*field)); }, refusal, false};
}

template <bool OverlapSpec::*field>
LayoutKey overlap(const char* what, std::string help, bool any_value_trains = false) {
  const auto refusal = [any_value_trains](const LayoutSpec& l) {
    const bool usual = OverlapSpec{}.*field;
    return any_value_trains || l.overlap.*field == usual ? "" : fmt::format("must be {}", usual);
  };
  return on_or_off(
      fmt::format("overlap.{}", what), std::move(help), [](LayoutSpec& l) -> bool& { return l.overlap.*field; }, refusal,
      any_value_trains);
}

std::vector<LayoutKey> make_keys() {
  using L = LayoutSpec;
  using O = OverlapSpec;
  return {
      integer<&L::pp>("pp", 1, "pipeline stages"),
      integer<&L::dp>("dp", 0, "data-parallel ranks of a stage; 0: follows from the number of ranks"),
      integer<&L::ep>("ep", 1, "ranks over which the experts are spread"),
      schedule_key(),
      schedule_file_key(),
      stage_layers_key(),
      all_to_all_key(),
      number<&L::bucket_MiB>("bucket_MiB", 1e-6, 1e6, "size of the gradient buckets"),
      integer<&L::tp>("tp", 1, "tensor parallel: heads, feed-forward width, vocabulary", 1),
      on_or_off("sequence_parallel", "with tp: norms and residuals are split by token",
                [](L& l) -> bool& { return l.sequence_parallel; }),
      integer<&L::cp>("cp", 1, "context parallel: the sequence is split for attention", 1),
      integer<&L::etp>("etp", 1, "tensor parallel inside an expert", 1),
      axis_order<&L::order>("order", "how ranks are numbered over the axes, the first varies fastest", order_from_text),
      axis_order<&L::expert_order>("expert_order",
                                   "the same for the experts' axes (etp, ep, edp, pp); empty: follows order",
                                   expert_order_from_text),
      virtual_stages_key(),
      integer<&L::micro_batch_group>("micro_batch_group", 0,
                                     "interleaved and merged 1F1B: micro-batches that a chunk takes in a row; 0: pp"),
      sharding_key(),
      integer<&L::shard_degree>("shard_degree", 0, "data ranks that one set of shards spans; 0: all"),
      integer<&L::expert_shard_degree>("expert_shard_degree", 0, "the same for routed experts; 0: all"),
      set_of_parts<&L::recompute>(
          "recompute",
          fmt::format("parts of a layer that the backward computes again: {}", fmt::join(recompute_names(), ", ")),
          recompute_from_names),
      integer<&L::recompute_layers>("recompute_layers", 0, "layers of each piece that recompute is for; 0: all"),
      set_of_parts<&L::swap>("swap", fmt::format("kept in host memory between uses: {}", fmt::join(swap_names(), ", ")),
                             swap_from_names),
      on_or_off(
          "matrix_owners", "optimizer state by whole matrices on their owners (Muon), not by flat shards",
          [](L& l) -> bool& { return l.matrix_owners; },
          [](const L& l) { return l.matrix_owners ? "must be false" : ""; }, false),
      overlap<&O::gradients>("gradients", "reductions of gradients beside the backward"),
      overlap<&O::parameters>("parameters", "gathers of sharded parameters beside compute"),
      // Without tensor parallelism, which train doesn't have, it says nothing.
      overlap<&O::tensor>("tensor", "with tp: its collectives beside the matmuls next to them", true),
      overlap<&O::experts>("experts", "dispatch and combine beside another micro-batch"),
      overlap<&O::pipeline>("pipeline", "sends between stages beside compute"),
  };
}

constexpr std::string_view overlap_prefix = "overlap.";

// The table that holds a key, and its name there.
std::pair<ConfigTable, std::string> place_of(const LayoutKey& key, ConfigTable& layout) {
  if (!key.name.starts_with(overlap_prefix)) return {layout, key.name};
  return {layout.table("overlap"), key.name.substr(overlap_prefix.size())};
}

}  // namespace

const std::vector<LayoutKey>& layout_keys() {
  static const std::vector<LayoutKey> keys = make_keys();
  return keys;
}

LayoutSpec read_layout(ConfigTable table, const std::vector<std::string>& patterns) {
  LayoutSpec out;
  for (const LayoutKey& key : layout_keys()) {
    auto [holder, name] = place_of(key, table);
    key.read(holder, name, patterns, out);
  }
  return out;
}

std::string to_toml(const LayoutSpec& layout) {
  std::string own = "\n[layout]\n", overlap = "\n[layout.overlap]\n";
  for (const LayoutKey& key : layout_keys()) {
    const bool nested = key.name.starts_with(overlap_prefix);
    (nested ? overlap : own) +=
        fmt::format("{} = {}\n", nested ? key.name.substr(overlap_prefix.size()) : key.name, key.value(layout).dump());
  }
  return own + overlap;
}

json to_json(const LayoutSpec& layout) {
  json out;
  for (const LayoutKey& key : layout_keys()) {
    const bool nested = key.name.starts_with(overlap_prefix);
    (nested ? out["overlap"][key.name.substr(overlap_prefix.size())] : out[key.name]) = key.value(layout);
  }
  return out;
}

std::string cell_text(const json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::vector<std::string> entries;
  for (const json& v : value) entries.push_back(cell_text(v));
  return fmt::format("{}", fmt::join(entries, " "));
}

std::vector<RefusedKey> refused_keys(const LayoutSpec& layout) {
  std::vector<RefusedKey> out;
  for (const LayoutKey& key : layout_keys())
    if (std::string wanted = key.refusal(layout); !wanted.empty())
      out.push_back({"layout." + key.name, key.value(layout).dump(), std::move(wanted), key.lowered});
  return out;
}

std::string layout_key_help() {
  std::string out = "Keys of [layout], for --set layout.KEY=VALUE:\n";
  const LayoutSpec plain;
  for (const LayoutKey& key : layout_keys())
    out += fmt::format("  {:<20} {} ({})\n", key.name, key.help, key.value(plain).dump());
  return out;
}

}  // namespace trireme::plan
