#include "train/data/weight_file.h"

#include <bit>
#include <limits>

namespace trireme::train {

static_assert(std::endian::native == std::endian::little && sizeof(float) == weight_bytes &&
              std::numeric_limits<float>::is_iec559);

WeightWriter::WeightWriter(const std::string& prefix) : file_(prefix + ".weights") {}

void WeightWriter::add(std::span<const float> weights) {
  buffer_.insert(buffer_.end(), weights.begin(), weights.end());
  for (const float weight : weights) sum_ += weight;
  if (buffer_.size() >= std::size_t{1} << 20) flush();
}

void WeightWriter::flush() {
  file_.write(std::as_bytes(std::span(buffer_)));
  buffer_.clear();
}

void WeightWriter::prepare() {
  flush();
  file_.sync();
}

void WeightWriter::commit() {
  file_.commit();
}

}  // namespace trireme::train
