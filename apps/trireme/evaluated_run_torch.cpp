#include "trireme/evaluated_run.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "train/checkpoint/checkpoint_folder.h"
#include "train/checkpoint/weight_source.h"

namespace trireme::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t default_sequence_length = 1024;

train::FoundWeights find_source(const EvaluateOptions& o) {
  train::CheckpointChoice choice{.best = o.best, .key = "SOURCE"};
  if (o.step > 0) choice.step = o.step;
  return train::find_weights(o.source, choice, o.set);
}

plan::DataSet set_of(const std::string& text) {
  if (text.empty()) throw ConfigError({.key = "--data", .allowed = "needs the prefix of a .bin/.idx pair"});
  plan::DataSet set{.prefix = text};
  // A prefix may have an equals sign of its own.
  if (const auto at = text.rfind('='); at != std::string::npos && !fs::exists(text + ".idx"))
    set = {.prefix = text.substr(0, at), .name = text.substr(at + 1)};
  if (set.prefix.empty() || (text.ends_with('=') && set.name.empty()))
    throw ConfigError({.key = "--data", .value = text, .allowed = "must be PREFIX or PREFIX=NAME"});
  // The files themselves are often what is at hand.
  for (const char* ending : {".bin", ".idx"})
    if (set.prefix.ends_with(ending) && !fs::exists(set.prefix + ".idx"))
      throw ConfigError({.key = "--data",
                         .value = set.prefix,
                         .allowed = fmt::format("is a file: give its prefix, without {}", ending)});
  if (set.prefix != "random") set.prefix = fs::absolute(set.prefix).lexically_normal().string();
  return set;
}

std::vector<plan::DataSet> sets_of(const std::vector<std::string>& data) {
  std::vector<plan::DataSet> sets;
  for (const std::string& text : data) {
    sets.push_back(set_of(text));
    const std::string name = plan::name_of(sets.back());
    for (std::size_t i = 0; i + 1 < sets.size(); ++i)
      if (plan::name_of(sets[i]) == name)
        throw ConfigError(
            {.key = "--data",
             .value = text,
             .allowed = fmt::format("is the second set with the name \"{}\": give each one of its own, as "
                                    "PREFIX=NAME",
                                    name)});
  }
  return sets;
}

std::int64_t sequences_of(const std::string& text) {
  if (text == "all") return plan::all_sequences;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0)
    throw ConfigError({.key = "--sequences", .value = text, .allowed = "must be a number of at least 1, or \"all\""});
  return value;
}

// Without a run: the model alone, on one rank or as many data ranks as are asked for.
plan::RunSpec run_without_file(const train::FoundWeights& source, const EvaluateOptions& o) {
  plan::RunSpec run;
  run.name = "evaluate";
  run.model = train::open_weights(source.folder)->model();
  run.batch = {.sequence_length = default_sequence_length, .micro_batch = 1, .global_batch = 1};
  return plan::parse_run(plan::to_toml(run), o.source, o.set);
}

}  // namespace

EvaluatedRun evaluated_run(const EvaluateOptions& o, int launched_ranks) {
  const train::FoundWeights source = find_source(o);
  EvaluatedRun out{.weights = source.folder};
  plan::RunSpec& run = out.run;
  run = source.run_file ? plan::load_run(*source.run_file, o.set) : run_without_file(source, o);
  if (!source.is_run) run.layout = {};
  if (o.ranks > 0) run.layout.dp = 0;
  if (run.layout.all_to_all == "auto") run.layout.all_to_all = "flat";
  out.ranks = launched_ranks > 0 ? launched_ranks
              : o.ranks > 0      ? o.ranks
                                 : run.layout.pp * (run.layout.dp > 0 ? run.layout.dp : run.layout.ep);
  if (o.micro_batch > 0) run.batch.micro_batch = o.micro_batch;
  // The batch that one micro-batch of each data rank makes: any number of ranks fits.
  run.batch.global_batch = run.batch.micro_batch * std::max(1, out.ranks / std::max(1, run.layout.pp));
  if (o.sequence_length > 0) run.batch.sequence_length = o.sequence_length;
  if (!o.data.empty()) run.data.valid = sets_of(o.data);
  if (run.data.valid.empty())
    throw ConfigError({.key = "--data",
                       .allowed = "is missing: the prefix of a .bin/.idx pair is needed, for the run has no "
                                  "data.valid"});
  run.train.eval_every = 0;
  run.train.eval_sequences = sequences_of(o.sequences);
  return out;
}

}  // namespace trireme::apps
