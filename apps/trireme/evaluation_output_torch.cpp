#include "trireme/evaluation_output.h"

#include <cmath>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/number_words.h"
#include "train/data/text_bytes.h"
#include "trireme/standard_output.h"

namespace trireme::apps {
namespace {

constexpr std::int64_t many_tokens = 1 << 25;  // to read and decode: seconds

struct Row {
  std::string name, prefix;
  double loss_sum = 0, weight = 0;  // their quotient is the loss
  std::int64_t sequences = 0, tokens = 0;
  std::optional<std::int64_t> bytes = 0;

  double loss() const { return weight > 0 ? loss_sum / weight : std::nan(""); }
  // Nats of all targets over ln 2 and the bytes of their text.
  std::optional<double> bits_per_byte() const {
    if (!bytes || *bytes == 0) return std::nullopt;
    return loss_sum / std::log(2.0) / static_cast<double>(*bytes);
  }
};

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json to_json(const Row& row) {
  nlohmann::ordered_json out;
  if (!row.name.empty()) out["name"] = row.name, out["path"] = row.prefix;
  out["loss"] = number(row.loss());
  out["perplexity"] = number(std::exp(row.loss()));
  out["sequences"] = row.sequences;
  out["tokens"] = row.tokens;
  out["bytes"] = row.bytes ? nlohmann::ordered_json(*row.bytes) : nlohmann::ordered_json(nullptr);
  const auto bits = row.bits_per_byte();
  out["bits_per_byte"] = bits ? number(*bits) : nlohmann::ordered_json(nullptr);
  return out;
}

std::string to_line(const Row& row, std::size_t width) {
  const auto bits = row.bits_per_byte();
  const double loss = without_nan_sign(row.loss());
  return fmt::format("{:<{}}  {:>9.6f}  {:>11.6g}  {:>13}  {:>10}  {:>9}\n", row.name, width, loss, std::exp(loss),
                     bits ? fmt::format("{:.6f}", without_nan_sign(*bits)) : "unknown", row.tokens, row.sequences);
}

}  // namespace

void print_evaluation(const EvaluatedRun& evaluated, const std::vector<train::EvaluationSet>& sets,
                      const train::EvaluationResult& result, bool json) {
  std::vector<Row> rows;
  Row together;
  std::size_t width = 8;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const auto tokenizer = train::known_tokenizer(sets[i].prefix);
    if (sets[i].source->num_sequences() > many_tokens / evaluated.run.batch.sequence_length)
      fmt::print(stderr, "counting the bytes of {}\n", sets[i].name);
    const train::TargetCount count = train::count_targets(*sets[i].source, tokenizer.get());
    const train::SetLoss& loss = result.sets[i];
    rows.push_back({.name = sets[i].name,
                    .prefix = sets[i].prefix,
                    .loss_sum = loss.loss_sum,
                    .weight = loss.weight,
                    .sequences = loss.sequences,
                    .tokens = count.targets,
                    .bytes = count.bytes});
    together.loss_sum += loss.loss_sum, together.weight += loss.weight;
    together.sequences += loss.sequences, together.tokens += count.targets;
    together.bytes = together.bytes && count.bytes ? std::optional(*together.bytes + *count.bytes) : std::nullopt;
    width = std::max(width, sets[i].name.size());
  }
  if (json) {
    nlohmann::ordered_json out{{"weights", evaluated.weights.string()},
                               {"sequence_length", evaluated.run.batch.sequence_length},
                               {"sets", nlohmann::ordered_json::array()}};
    for (const Row& row : rows) out["sets"].push_back(to_json(row));
    out["together"] = to_json(together);
    print_output("{}\n", out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    return;
  }
  print_output("{}, sequences of {} tokens\n", evaluated.weights.string(), evaluated.run.batch.sequence_length);
  print_output("{:<{}}  {:>9}  {:>11}  {:>13}  {:>10}  {:>9}\n", "data", width, "loss", "perplexity", "bits per byte",
             "tokens", "sequences");
  for (const Row& row : rows) print_output("{}", to_line(row, width));
  if (rows.size() > 1) {
    together.name = "together";
    print_output("{}", to_line(together, width));
  }
}

}  // namespace trireme::apps
