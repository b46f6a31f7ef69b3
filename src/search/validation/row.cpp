#include "search/validation/row.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/csv_table.h"
#include "base/errors.h"

namespace trireme::search {

namespace {

// A cell that holds something else than its column says is no reason to refuse the other rows: the row says so.
void not_read(const CsvTable& in, std::size_t i, const char* column, const char* expected, Row& row) {
  if (row.scorable == "yes")
    row.scorable = fmt::format("no: {} = \"{}\" is not {}", column, in.text(i, column), expected);
}

std::optional<double> number(const CsvTable& in, std::size_t i, const char* column, Row& row) {
  try {
    return in.number(i, column);
  } catch (const ConfigError&) {
    not_read(in, i, column, "a number", row);
    return std::nullopt;
  }
}

std::optional<int> whole(const CsvTable& in, std::size_t i, const char* column, Row& row) {
  std::optional<std::int64_t> value;
  bool read = true;
  try {
    value = in.integer(i, column);
  } catch (const ConfigError&) {
    read = false;
  }
  if (!read || (value && (*value < 1 || *value > 1000000000))) {
    not_read(in, i, column, "a whole number of at least 1", row);
    return std::nullopt;
  }
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

void set_measured(Row& row, Quantity quantity, double value, std::string unit) {
  row.quantity = quantity, row.measured = value, row.unit = std::move(unit);
}

// A blank value is one to predict; one that is given and not above 0 was no measurement.
void check_measured(const CsvTable& in, std::size_t i, Row& row) {
  if (row.measured > 0) return;
  for (const char* column :
       {"measured_value", "tokens_per_s_per_device", "tflops_per_device", "mfu_percent", "step_time_s"})
    if (!in.text(i, column).empty()) not_read(in, i, column, "above 0", row);
}

// The value that the source timed, where it says so; else what it derived from it.
void measured_throughput(const CsvTable& in, std::size_t i, Row& row) {
  row.tokens_per_s = number(in, i, "tokens_per_s_per_device", row);
  row.tflops = number(in, i, "tflops_per_device", row);
  const auto step = number(in, i, "step_time_s", row), mfu = number(in, i, "mfu_percent", row);
  if (step)
    set_measured(row, Quantity::step_s, *step, "s");
  else if (row.tokens_per_s)
    set_measured(row, Quantity::tokens_per_s, *row.tokens_per_s, "tokens/s/device");
  else if (row.tflops)
    set_measured(row, Quantity::tflops, *row.tflops, "TFLOP/s/device");
  else if (mfu)
    set_measured(row, Quantity::mfu, *mfu, "% MFU");
  else
    set_measured(row, Quantity::tokens_per_s, 0, "tokens/s/device");
  check_measured(in, i, row);
}

void measured_value(const CsvTable& in, std::size_t i, Row& row) {
  const std::string& unit = in.text(i, "unit");
  // Some rows hold words where nothing was measured ("OOM").
  const double value = number(in, i, "measured_value", row).value_or(0);
  row.unit = unit, row.measured = value;
  if (unit == "s/iter")
    row.quantity = Quantity::step_s;
  else if (unit == "ms/iter")
    row.quantity = Quantity::step_s;
  else if (unit == "tokens/s/GPU")
    row.quantity = Quantity::tokens_per_s;
  else if (unit == "model TFLOP/s/GPU")
    row.quantity = Quantity::tflops;
  else if (unit == "GiB max_allocated")
    row.quantity = Quantity::allocated_GiB;
  else if (unit == "GiB max_reserved")
    row.quantity = Quantity::reserved_GiB;
  else if (row.scorable == "yes")
    row.scorable = "no: unit " + unit;
  check_measured(in, i, row);
}

}  // namespace

std::vector<Row> read_rows(const std::filesystem::path& path) {
  const CsvTable in = CsvTable::from_file(path);
  const bool one_value = in.has_column("measured_value");
  in.require_columns({"model", "hardware", one_value ? "n_gpus" : "n_devices"});
  if (one_value) in.require_columns({"unit"});
  static constexpr std::array values{"tokens_per_s_per_device", "tflops_per_device", "mfu_percent", "step_time_s"};
  if (!one_value && std::none_of(values.begin(), values.end(), [&](const char* v) { return in.has_column(v); }))
    in.require_columns({values[0]});
  std::vector<Row> rows;
  for (std::size_t i = 0; i < in.num_rows(); ++i) {
    Row r;
    r.line = in.line(i);
    r.id = in.text(i, "id").empty() ? fmt::format("{}", r.line) : in.text(i, "id");
    r.source = in.text(i, one_value ? "source" : "source_file_or_url");
    r.model = in.text(i, "model"), r.hardware = in.text(i, "hardware");
    r.precision = in.text(i, one_value ? "dtype" : "precision");
    // A table without the column leaves it to the row whether it can be predicted.
    r.scorable = in.has_column("scorable") ? in.text(i, "scorable") : "yes";
    if (r.scorable.empty()) r.scorable = "no: the table does not say";
    const auto count = [&](const char* column) { return whole(in, i, column, r); };
    r.devices = count(one_value ? "n_gpus" : "n_devices");
    r.tp = count("tp"), r.pp = count("pp"), r.vpp = count("vpp"), r.cp = count("cp");
    r.ep = count("ep"), r.etp = count("etp"), r.dp = count("dp");
    r.micro_batch = count("micro_batch"), r.global_batch = count("global_batch");
    r.sequence = count(one_value ? "seq" : "seq_len");
    r.sharding = in.text(i, "fsdp_or_zero"), r.recompute = in.text(i, "recompute");
    r.overlap = in.text(i, "overlap_notes"), r.notes = in.text(i, "notes");
    one_value ? measured_value(in, i, r) : measured_throughput(in, i, r);
    rows.push_back(std::move(r));
  }
  return rows;
}

}  // namespace trireme::search
