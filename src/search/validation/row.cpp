#include "search/validation/row.h"

#include <fmt/format.h>

#include "base/csv_table.h"
#include "base/errors.h"

namespace trireme::search {

namespace {

std::optional<int> whole(const CsvTable& in, std::size_t row, const char* column) {
  const auto value = in.integer(row, column);
  if (value && (*value < 1 || *value > 1000000000)) in.fail(row, column, "a whole number of at least 1, or blank");
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

void set_measured(Row& row, Quantity quantity, double value, std::string unit) {
  row.quantity = quantity, row.measured = value, row.unit = std::move(unit);
}

// The value that the source timed, where it says so; else what it derived from it.
void measured_throughput(const CsvTable& in, std::size_t i, Row& row) {
  row.tokens_per_s = in.number(i, "tokens_per_s_per_device");
  row.tflops = in.number(i, "tflops_per_device");
  const auto step = in.number(i, "step_time_s"), mfu = in.number(i, "mfu_percent");
  if (step)
    set_measured(row, Quantity::step_s, *step, "s");
  else if (row.tokens_per_s)
    set_measured(row, Quantity::tokens_per_s, *row.tokens_per_s, "tokens/s/device");
  else if (row.tflops)
    set_measured(row, Quantity::tflops, *row.tflops, "TFLOP/s/device");
  else if (mfu)
    set_measured(row, Quantity::mfu, *mfu, "% MFU");
  else if (row.scorable == "yes")
    row.scorable = "no: no measured value";
}

void measured_value(const CsvTable& in, std::size_t i, Row& row) {
  const std::string& unit = in.text(i, "unit");
  // Some rows hold words where nothing was measured ("OOM").
  double value = 0;
  try {
    value = in.number(i, "measured_value").value_or(0);
  } catch (const ConfigError&) {
    if (row.scorable == "yes") row.scorable = "no: not a number: " + in.text(i, "measured_value");
  }
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
  if (row.scorable == "yes" && value <= 0) row.scorable = "no: no measured value";
}

}  // namespace

std::vector<Row> read_rows(const std::filesystem::path& path) {
  const CsvTable in = CsvTable::from_file(path);
  const bool one_value = in.has_column("measured_value");
  in.require_columns(
      {"model", "hardware", one_value ? "n_gpus" : "n_devices", one_value ? "unit" : "tokens_per_s_per_device"});
  std::vector<Row> rows;
  for (std::size_t i = 0; i < in.num_rows(); ++i) {
    Row r;
    r.line = in.line(i);
    r.id = in.text(i, "id").empty() ? fmt::format("{}", r.line) : in.text(i, "id");
    r.source = in.text(i, one_value ? "source" : "source_file_or_url");
    r.date = in.text(i, "date"), r.model = in.text(i, "model"), r.hardware = in.text(i, "hardware");
    r.precision = in.text(i, one_value ? "dtype" : "precision");
    r.devices = whole(in, i, one_value ? "n_gpus" : "n_devices");
    r.tp = whole(in, i, "tp"), r.pp = whole(in, i, "pp"), r.vpp = whole(in, i, "vpp"), r.cp = whole(in, i, "cp");
    r.ep = whole(in, i, "ep"), r.etp = whole(in, i, "etp"), r.dp = whole(in, i, "dp");
    r.micro_batch = whole(in, i, "micro_batch"), r.global_batch = whole(in, i, "global_batch");
    r.sequence = whole(in, i, one_value ? "seq" : "seq_len");
    r.sharding = in.text(i, "fsdp_or_zero"), r.recompute = in.text(i, "recompute");
    r.overlap = in.text(i, "overlap_notes"), r.notes = in.text(i, "notes");
    r.predicted_by_source = in.text(i, "predicted_by_source");
    // A table without the column leaves it to the row whether it can be predicted.
    r.scorable = in.has_column("scorable") ? in.text(i, "scorable") : "yes";
    if (r.scorable.empty()) r.scorable = "no: the table does not say";
    one_value ? measured_value(in, i, r) : measured_throughput(in, i, r);
    rows.push_back(std::move(r));
  }
  return rows;
}

}  // namespace trireme::search
