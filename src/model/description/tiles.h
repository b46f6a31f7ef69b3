// How many rows tiled kernels (Kernels::tiled) take at a time: by the number of rows alone, as nn/cpu/tasks.h has it.
#pragma once
#include <algorithm>
#include <cstdint>

namespace trireme::model {

struct Tiles {
  double size = 1, count = 0;  // rows of a tile; tiles

  explicit Tiles(double all_rows) {
    const auto rows = static_cast<std::int64_t>(all_rows);
    const std::int64_t of_tile = std::clamp<std::int64_t>((rows / 8 + 15) / 16 * 16, 32, 256);
    size = static_cast<double>(of_tile);
    count = static_cast<double>((rows + of_tile - 1) / of_tile);
  }
};

}  // namespace trireme::model
