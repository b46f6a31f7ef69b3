#include "train/data/text_bytes.h"

#include <vector>

#include "base/errors.h"
#include "train/data/dataset_tokenizer.h"

namespace trireme::train {
namespace {

std::int64_t length_of(const Tokenizer& tokenizer, const std::vector<std::int32_t>& tokens) {
  return static_cast<std::int64_t>(tokenizer.decode(tokens).size());
}

}  // namespace

TargetCount count_targets(const SequenceSource& source, const Tokenizer* tokenizer) {
  const auto length = static_cast<std::size_t>(source.sequence_length());
  std::vector<std::int64_t> tokens(length), targets(length), positions(length), documents(length);
  std::vector<float> weights(length);
  std::vector<std::int32_t> run;  // the token before, and targets that follow one another
  TargetCount out;
  std::int64_t bytes = 0;
  bool known = tokenizer != nullptr;
  const auto end_run = [&] {
    if (known && run.size() > 1) bytes += length_of(*tokenizer, run) - length_of(*tokenizer, {run[0]});
    run.clear();
  };
  for (std::int64_t n = 0; n < source.num_sequences(); ++n) {
    source.read(n, {tokens, targets, weights, positions, documents});
    for (std::size_t i = 0; i < length; ++i) {
      if (weights[i] == 0) {
        end_run();
        continue;
      }
      ++out.targets;
      known = known && weights[i] == 1;
      if (run.empty()) run.push_back(static_cast<std::int32_t>(tokens[i]));
      run.push_back(static_cast<std::int32_t>(targets[i]));
    }
    end_run();
  }
  if (known) out.bytes = bytes;
  return out;
}

std::unique_ptr<Tokenizer> known_tokenizer(const std::string& prefix) {
  try {
    return tokenizer_of_dataset(prefix);
  } catch (const ConfigError&) {
    // The loss needs no tokenizer: only its bits per byte stay unknown.
    return nullptr;
  }
}

}  // namespace trireme::train
