#include "train/data/training_data.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/errors.h"

namespace trireme::train {
namespace {

bool any_weight(const OpenedSet& set) {
  std::vector<float> block;
  for (std::int64_t first = 0; first < set.tokens->num_tokens(); first += static_cast<std::int64_t>(block.size())) {
    block.resize(static_cast<std::size_t>(std::min<std::int64_t>(1 << 16, set.tokens->num_tokens() - first)));
    set.weights->read(first, block);
    if (std::any_of(block.begin(), block.end(), [](float w) { return w > 0; })) return true;
  }
  return false;
}

std::vector<OpenedSet> open_sets(const plan::RunSpec& run) {
  if (run.data.train.empty())
    throw ConfigError({.file = run.file,
                       .key = "data.train",
                       .allowed = "is missing: the prefix of a .bin/.idx pair is needed (or \"random\")"});
  check_same_tokenizer(run);
  std::vector<OpenedSet> sets;
  for (const plan::DataSet& set : run.data.train) {
    sets.push_back(open_set(run, "data.train", set));
    if (sets.back().weights && !any_weight(sets.back()))
      throw ConfigError({.file = run.file, .key = "data.train", .value = set.prefix,
                         .allowed = "every loss weight of it is 0: nothing would be learned"});
  }
  return sets;
}

DataPosition fresh_position(const plan::RunSpec& run, const std::vector<OpenedSet>& sets) {
  DataPosition out{.seed = run.train.seed,
                   .sequence_length = run.batch.sequence_length,
                   .reset_at_documents = run.data.reset_at_documents};
  for (const OpenedSet& set : sets)
    out.sets.push_back({.name = set.name,
                        .prefix = set.prefix,
                        .weight = set.weight,
                        .num_tokens = set.tokens ? set.tokens->num_tokens() : 0,
                        .fingerprint = fingerprint(set)});
  return out;
}

std::int64_t count_of(const nlohmann::json& state, const char* key, const std::string& file) {
  const auto found = state.find(key);
  if (found == state.end() || !found->is_number_integer() || found->get<std::int64_t>() < 0)
    throw ConfigError({.file = file, .key = key, .allowed = "must be a whole number of at least 0"});
  return found->get<std::int64_t>();
}

Blend any_blend() {
  return Blend({{.name = "", .weight = 1}});
}

}  // namespace

TrainingData::TrainingData(const plan::RunSpec& run) : run_(run), blend_(any_blend()) {
  const std::vector<OpenedSet> sets = open_sets(run);
  for (const OpenedSet& set : sets)
    sources_.push_back(set.tokens ? training_source(set.tokens, packing_of(run, set))
                                  : random_source(run.model.vocab_size, run.batch.sequence_length, run.train.seed));
  set_position(fresh_position(run, sets));
}

void TrainingData::set_position(DataPosition position) {
  now_ = std::move(position);
  blend_ = now_.blend();
}

std::int64_t TrainingData::num_sequences() const {
  std::int64_t sum = 0;
  for (const auto& source : sources_)
    if (__builtin_add_overflow(sum, source->num_sequences(), &sum)) return INT64_MAX;
  return sum;
}

void TrainingData::read(std::int64_t number, SequenceSlots out) const {
  const BlendPlace place = blend_.place(number - now_.blend_start);
  sources_[place.set]->read(now_.sets[place.set].first + place.number, out);
}

TrainingData::Resumed TrainingData::resume(const nlohmann::json& state, const std::string& file) {
  if (!state.contains("data")) return resume_old(state, file);
  const std::int64_t seen = count_of(state, "sequences_seen", file);
  const DataPosition before = data_position_from_json(state.at("data"), file);
  if (before.blend_start > seen)
    throw ConfigError({.file = file,
                       .key = "data.blend_start",
                       .value = fmt::format("{}", before.blend_start),
                       .allowed = fmt::format("is behind sequences_seen ({})", seen)});
  ResumedPosition next = resume_position(
      before, now_, {.sequences_seen = seen, .allowed = run_.checkpoint.allow_changes, .file = run_.file});
  set_position(std::move(next.position));
  return {seen, std::move(next.messages)};
}

TrainingData::Resumed TrainingData::resume_old(const nlohmann::json& state, const std::string& file) const {
  const std::int64_t step = count_of(state, "step", file);
  if (step == 0) return {};
  DataPosition before = now_;
  if (state.contains("seed") && state["seed"].is_number_integer()) before.seed = state["seed"].get<std::uint64_t>();
  // The state has no data to compare: only the seed can differ.
  Resumed out{
      .messages =
          resume_position(before, now_, {.allowed = run_.checkpoint.allow_changes, .file = run_.file}).messages};
  const std::int64_t tokens = count_of(state, "tokens_seen", file);
  const plan::BatchSpec& batch = run_.batch;
  const double expected =
      static_cast<double>(step) * static_cast<double>(batch.global_batch) * static_cast<double>(batch.sequence_length);
  if (now_.sets.size() > 1 || static_cast<double>(tokens) != expected)
    throw ConfigError({.file = file,
                       .key = "sequences_seen",
                       .allowed = fmt::format(
                           "is missing: an older program wrote this checkpoint, and it can't be told which sequences "
                           "its {} tokens in {} "
                           "steps were. Resume once with one set under data.train and with the batch.global_batch and "
                           "batch.sequence_length of before; the checkpoints of that run keep the position",
                           tokens, step)});
  out.sequences_seen = step * batch.global_batch;
  out.messages.push_back(fmt::format(
      "an older program wrote the checkpoint, without its position in the data: it is sequence {}, {} steps of "
      "batch.global_batch = {}; that the data is the same is not checked",
      out.sequences_seen, step, batch.global_batch));
  return out;
}

nlohmann::json TrainingData::state(std::int64_t sequences_seen) const {
  nlohmann::json data = to_json(now_);
  data["tokens"] = now_.tokens_of_sets(sequences_seen);  // for readers; follows from the rest
  return {{"sequences_seen", sequences_seen}, {"data", std::move(data)}};
}

std::unique_ptr<TrainingData> open_training(const plan::RunSpec& run) {
  return std::make_unique<TrainingData>(run);
}

}  // namespace trireme::train
