#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "plan/pipeline/schedule_file.h"

namespace trireme::plan {

namespace {

constexpr std::string_view pair_name = "OVERLAP_F_B";
constexpr int most = 1 << 18;  // pieces and micro-batches, as a grid's

// One action: a slot whose chunk is a piece of the model.
bool read_action(std::string_view text, Slot& out) {
  const char *at = text.data(), *end = at + text.size();
  const auto number = [&](int& value) {
    const auto [after, error] = std::from_chars(at, end, value);
    at = after;
    return error == std::errc() && value >= 0 && value < most;
  };
  if (!number(out.chunk) || at == end || std::string_view("FBIW").find(*at) == std::string_view::npos) return false;
  out.kind = static_cast<SlotKind>(*at++);
  return number(out.mb) && at == end;
}

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// A cell's slots; false where it is none.
bool read_cell(std::string_view cell, std::vector<Slot>& row) {
  if (cell.empty()) return true;
  Slot first, second;
  if (cell.front() != '(') {
    row.push_back({});
    return read_action(cell, row.back());
  }
  const auto middle = cell.find(';'), close = cell.find(')');
  if (close == std::string_view::npos || middle > close || cell.substr(close + 1) != pair_name) return false;
  if (!read_action(trimmed(cell.substr(1, middle - 1)), first) ||
      !read_action(trimmed(cell.substr(middle + 1, close - middle - 1)), second))
    return false;
  first.joined = true;
  row.insert(row.end(), {first, second});
  return true;
}

[[noreturn]] void bad_cell(int line, int cell, std::size_t stage, std::string_view value) {
  const bool of_messages =
      std::ranges::any_of(std::initializer_list<const char*>{"SEND", "RECV", "SHARD", "REDUCE_GRAD"},
                          [&](const char* word) { return value.find(word) != std::string_view::npos; });
  throw ConfigError(
      {.key = fmt::format("schedule line {}, cell {}", line, cell),
       .value = std::string(value),
       .allowed = fmt::format("in the row of stage {}: {}", stage,
                              of_messages ? "messages are planned here: give the actions that compute only "
                                            "(PyTorch's format \"compute_only\")"
                                          : "must be an action such as 0F0, 3B1, 2I0 or 2W0 (piece, kind, "
                                            "micro-batch), two as (0F4;7B2)OVERLAP_F_B, or nothing")});
}

// From pieces to the chunks of a stage, which are its pieces in ascending order; a stage with fewer has empty ones.
void number_chunks(Schedule& s) {
  std::vector<std::set<int>> held;
  std::size_t chunks = 1;
  for (const auto& row : s.rows) {
    auto& pieces = held.emplace_back();
    for (const Slot& slot : row) pieces.insert(slot.chunk);
    chunks = std::max(chunks, pieces.size());
  }
  if (chunks * held.size() > static_cast<std::size_t>(most))
    throw ConfigError({.key = "schedule",
                       .value = fmt::format("{} stages, one with {} pieces", held.size(), chunks),
                       .allowed = fmt::format("at most {} pieces", most)});
  s.num_chunks = static_cast<int>(chunks);
  bool round = true;  // as a grid without a map
  for (int stage = 0; stage < s.num_stages; ++stage) {
    std::vector<int> pieces(held[stage].begin(), held[stage].end());
    pieces.resize(chunks, -1);
    std::map<int, int> chunk_of;
    for (int chunk = 0; chunk < s.num_chunks; ++chunk) {
      if (pieces[chunk] >= 0) chunk_of[pieces[chunk]] = chunk;
      round = round && pieces[chunk] == piece_of(PieceMap::round, s.num_stages, stage, chunk);
    }
    for (Slot& slot : s.rows[stage]) slot.chunk = chunk_of.at(slot.chunk);
    s.pieces.push_back(std::move(pieces));
  }
  if (round) s.pieces.clear();
}

}  // namespace

ScheduleText parse_schedule_csv(const std::string& text, const std::string& name) {
  ScheduleText out;
  Schedule& s = out.schedule;
  s.name = name;
  s.num_micro_batches = 0;
  std::istringstream in(text);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (trimmed(line).empty()) continue;
    auto& row = s.rows.emplace_back();
    out.lines.push_back(number);
    std::string_view rest = line;
    for (int cell = 1;; ++cell) {
      const auto comma = rest.find(',');
      const std::string_view word = trimmed(rest.substr(0, comma));
      if (!read_cell(word, row)) bad_cell(number, cell, s.rows.size() - 1, word);
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    for (const Slot& slot : row) s.num_micro_batches = std::max(s.num_micro_batches, slot.mb + 1);
    if (row.empty())
      throw ConfigError({.key = fmt::format("schedule line {}", number),
                         .allowed = fmt::format("the row of stage {} holds no action", s.rows.size() - 1)});
  }
  if (s.rows.empty())
    throw ConfigError({.key = "schedule", .value = "no row", .allowed = "a line for each stage of the pipeline"});
  s.num_stages = static_cast<int>(s.rows.size());
  number_chunks(s);
  return out;
}

std::string to_csv(const Schedule& s) {
  std::string out;
  for (int stage = 0; stage < s.num_stages; ++stage) {
    std::vector<std::string> cells;
    const auto& row = s.rows[stage];
    const auto action = [&](const Slot& slot) {
      return fmt::format("{}{}{}", piece_of(s, stage, slot.chunk), static_cast<char>(slot.kind), slot.mb);
    };
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (row[i].kind == SlotKind::no_op) continue;
      if (row[i].joined && i + 1 < row.size()) {
        cells.push_back(fmt::format("({};{}){}", action(row[i]), action(row[i + 1]), pair_name));
        ++i;
      } else {
        cells.push_back(action(row[i]));
      }
    }
    out += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return out;
}

}  // namespace trireme::plan
