// PREFIX.weights, where a data set has one: a little-endian float32 a token, in the order of PREFIX.bin. It is the
// weight that predicting this token has in the loss.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "train/data/data_file.h"
#include "train/data/token_file.h"

namespace trireme::train {

class LossWeights {
 public:
  // Null where the set has no such file: all weights are 1. ConfigError for another size than one value a token, for a
  // value that is negative or not finite (reads the whole file), and for a file that PREFIX.meta.json says is there and
  // is missing.
  static std::shared_ptr<const LossWeights> open(const TokenReader& tokens);

  // Of tokens [first, first + out.size()) of the whole file.
  void read(std::int64_t first, std::span<float> out) const;

 private:
  LossWeights(const std::string& path, std::int64_t num_tokens);

  DataFile file_;
  std::int64_t num_tokens_;
};

}  // namespace trireme::train
