// Published measurements as rows, from either kind of table: training throughput with a row's several values, or one
// measured value and its unit a row (docs/validation.md lists the columns). A field that the table leaves blank is
// empty.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme::search {

enum class Quantity { step_s, tokens_per_s, tflops, mfu, allocated_GiB, reserved_GiB };

struct Row {
  std::string id;  // from the file, else the number of its line
  int line = 0;
  std::string source, model, hardware, precision;
  std::optional<int> devices, tp, pp, vpp, cp, ep, etp, dp;
  std::optional<long long> micro_batch, global_batch, sequence;
  std::string sharding, recompute, overlap, notes;
  std::string scorable;                  // "yes", or why not
  Quantity quantity = Quantity::step_s;  // of `measured`
  double measured = 0;                   // in `unit`; 0: blank, a row to be predicted and compared with nothing
  std::string unit;  // "s", "ms/iter", "tokens/s/device", "TFLOP/s/device", "% MFU", "GiB max_allocated"
  std::optional<double> tokens_per_s, tflops;  // where the table has them beside `measured`
  std::vector<std::string> borrowed;  // what other rows lent it (borrow_blanks)
};

// In file order. ConfigError where the columns are neither kind's. A row with a cell that is no number, or none that
// can be, says so in `scorable`. A row of the first kind without any measured value is of tokens a second.
std::vector<Row> read_rows(const std::filesystem::path& path);

}  // namespace trireme::search
