#include "sim/grid/simulate_grid.h"

#include <algorithm>
#include <array>

#include "base/errors.h"

namespace trireme::sim {

namespace {

// A table of one entry a cell or one for each [cell][micro-batch], read alike.
struct Table {
  const double* values = nullptr;
  std::size_t by_cell = 0, by_mb = 0;
  double at(int cell, int mb) const { return values[cell * by_cell + mb * by_mb]; }
};

constexpr double zero = 0;

Table table(const std::vector<double>& values, std::size_t cells, std::size_t micro_batches, const char* name) {
  if (values.empty()) return {&zero, 0, 0};
  for (double v : values) TRIREME_CHECK(v >= 0, "{} holds {}", name, v);
  if (values.size() == cells) return {values.data(), 1, 0};
  TRIREME_CHECK(values.size() == cells * micro_batches, "{} has {} entries for {} cells and {} micro-batches", name,
                values.size(), cells, micro_batches);
  return {values.data(), micro_batches, 1};
}

struct Tables {
  std::array<Table, num_unit_kinds> seconds;
  bool sum_pair = false, sum_pair_input = false;  // of its parts, where no price of the pair is given
  Table forward_send, backward_send;
  int num_chunks = 1;

  Tables(const CompiledGrid& g, const GridCosts& c) : num_chunks(g.num_chunks) {
    const std::size_t cells = g.num_cells(), mbs = g.num_micro_batches;
    const auto set = [&](UnitKind kind, const std::vector<double>& values, std::size_t entries, const char* name) {
      seconds[static_cast<int>(kind)] = table(values, entries, mbs, name);
    };
    set(UnitKind::forward, c.forward_s, cells, "forward_s");
    set(UnitKind::backward, c.backward_s, cells, "backward_s");
    set(UnitKind::input_gradient, c.input_gradient_s, cells, "input_gradient_s");
    set(UnitKind::weight_gradient, c.weight_gradient_s, cells, "weight_gradient_s");
    set(UnitKind::pair, c.pair_s, cells * g.num_chunks, "pair_s");
    set(UnitKind::pair_input, c.pair_input_s, cells * g.num_chunks, "pair_input_s");
    sum_pair = c.pair_s.empty();
    sum_pair_input = c.pair_input_s.empty();
    forward_send = table(c.forward_send_s, cells, mbs, "forward_send_s");
    backward_send = table(c.backward_send_s, cells, mbs, "backward_send_s");
    // A price that is missing must not count as nothing. A pair without its own price needs those of its parts.
    const auto need = [&](const std::vector<double>& values, const char* name, auto... kinds) {
      TRIREME_CHECK(!values.empty() || !(g.uses[static_cast<int>(kinds)] || ...), "{} is empty", name);
    };
    if (sum_pair) need(c.forward_s, "forward_s", UnitKind::pair), need(c.backward_s, "backward_s", UnitKind::pair);
    if (sum_pair_input)
      need(c.forward_s, "forward_s", UnitKind::pair_input),
          need(c.input_gradient_s, "input_gradient_s", UnitKind::pair_input);
    need(c.forward_s, "forward_s", UnitKind::forward);
    need(c.backward_s, "backward_s", UnitKind::backward);
    need(c.input_gradient_s, "input_gradient_s", UnitKind::input_gradient);
    need(c.weight_gradient_s, "weight_gradient_s", UnitKind::weight_gradient);
  }

  double of_pair(const GridUnit& u) const {
    const bool whole = u.kind == UnitKind::pair;
    if (whole ? sum_pair : sum_pair_input)
      return seconds[static_cast<int>(UnitKind::forward)].at(u.cell, u.mb) +
             seconds[static_cast<int>(whole ? UnitKind::backward : UnitKind::input_gradient)].at(u.cell2, u.mb2);
    return seconds[static_cast<int>(u.kind)].at(u.cell * num_chunks + u.cell2 % num_chunks, u.mb);
  }
};

template <SendMode mode>
void walk(const CompiledGrid& g, const Tables& t, GridWorkspace& w) {
  double* const free = w.free_s.data();
  double* const arrival = w.arrival_s.data();
  double* const lane = w.lane_s.data();
  double* const busy = w.result.busy_s.data();
  // The time at which a message that is ready at `end` arrives.
  const auto send = [&](double end, double seconds, int stage, int direction) {
    if constexpr (mode == SendMode::lane) {
      double& until = lane[2 * stage + direction];
      return until = std::max(until, end) + seconds;
    } else {
      return end + seconds;
    }
  };
  for (std::size_t i = 0; i < g.units.size(); ++i) {
    const GridUnit& u = g.units[i];
    double start = std::max(free[u.stage], arrival[u.in]);
    double seconds;
    if (u.kind < UnitKind::pair) {
      seconds = t.seconds[static_cast<int>(u.kind)].at(u.cell, u.mb);
    } else {
      start = std::max(start, arrival[u.in2]);
      seconds = t.of_pair(u);
    }
    const double end = start + seconds;
    double until = end;  // when the stage goes on
    if (u.out >= 0) {
      const bool forward = u.kind == UnitKind::forward || u.kind >= UnitKind::pair;
      const double takes = (forward ? t.forward_send : t.backward_send).at(u.cell, u.mb);
      arrival[u.out] = send(end, takes, u.stage, forward ? 0 : 1);
      if constexpr (mode == SendMode::blocking) until = end + takes;
    }
    if (u.out2 >= 0) {
      const double takes = t.backward_send.at(u.cell2, u.mb2);
      arrival[u.out2] = send(end, takes, u.stage, 1);
      if constexpr (mode == SendMode::blocking) until = std::max(until, end + takes);
    }
    free[u.stage] = until;
    busy[u.stage] += seconds;
    w.unit_spans[i] = {start, end};
  }
}

void prepare(const CompiledGrid& g, GridWorkspace& w) {
  const std::size_t stages = g.num_stages;
  GridResult& r = w.result;
  r.makespan_s = 0;
  r.busy_s.assign(stages, 0);
  w.arrival_s.assign(g.num_messages, 0);
  w.free_s.assign(stages, 0);
  w.lane_s.assign(2 * stages, 0);
  w.unit_spans.resize(g.units.size());
}

}  // namespace

double GridResult::bubble_fraction() const {
  double busy = 0;
  for (double b : busy_s) busy += b;
  const double all = makespan_s * static_cast<double>(busy_s.size());
  return all > 0 ? 1 - busy / all : 0;
}

const GridResult& simulate_grid(const CompiledGrid& g, const GridCosts& c, GridWorkspace& w, bool spans) {
  prepare(g, w);
  const Tables t(g, c);
  GridResult& r = w.result;
  switch (c.sends) {
    case SendMode::lane:
      walk<SendMode::lane>(g, t, w);
      break;
    case SendMode::blocking:
      walk<SendMode::blocking>(g, t, w);
      break;
  }
  r.finish_s.assign(w.free_s.begin(), w.free_s.end());
  for (double f : r.finish_s) r.makespan_s = std::max(r.makespan_s, f);
  r.spans.assign(spans ? g.row_begin.back() : 0, {});
  if (spans)
    for (std::size_t i = 0; i < g.units.size(); ++i) {
      const std::size_t at = g.row_begin[g.units[i].stage] + g.units[i].slot;
      r.spans[at] = w.unit_spans[i];
      if (g.units[i].kind >= UnitKind::pair) r.spans[at + 1] = w.unit_spans[i];
    }
  return r;
}

GridResult simulate_grid(const CompiledGrid& grid, const GridCosts& costs, bool spans) {
  GridWorkspace workspace;
  simulate_grid(grid, costs, workspace, spans);
  return std::move(workspace.result);
}

}  // namespace trireme::sim
