#include <algorithm>
#include <cctype>
#include <charconv>
#include <climits>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "base/errors.h"
#include "plan/pipeline/schedule.h"

namespace trireme::plan {

namespace {

[[noreturn]] void bad(int line, const std::string& value, std::string allowed) {
  throw ConfigError({.key = fmt::format("schedule line {}", line), .value = value, .allowed = std::move(allowed)});
}

// A whole number at `at`, which moves behind it.
bool read_number(const char*& at, const char* end, int& out) {
  const auto [after, error] = std::from_chars(at, end, out);
  const bool good = error == std::errc() && after != at && out >= 0;
  at = after;
  return good;
}

// KIND MICRO-BATCH [. CHUNK], or "-".
bool read_slot(const char*& at, const char* end, Slot& slot) {
  if (at == end || std::string_view("FBIW-").find(*at) == std::string_view::npos) return false;
  slot.kind = static_cast<SlotKind>(*at++);
  if (slot.kind == SlotKind::no_op) return true;
  if (!read_number(at, end, slot.mb)) return false;
  return at == end || *at != '.' || read_number(++at, end, slot.chunk);
}

void read_word(const std::string& word, int line, std::size_t stage, std::vector<Slot>& row) {
  const char* at = word.data();
  const char* end = at + word.size();
  bool good = true;
  do {
    Slot slot;
    good = read_slot(at, end, slot);
    slot.joined = good && at != end && *at == '+';
    if (slot.joined) ++at;
    row.push_back(slot);
  } while (good && row.back().joined);
  if (!good || at != end)
    bad(line, word,
        fmt::format("in the row of stage {}: must be a slot such as F0, B3, I2 or W2.1 (kind, micro-batch, chunk), "
                    "two as F3.1+B2, or -",
                    stage));
}

// "(0 7)", "(3 -)": the pieces of a stage's chunks.
std::vector<int> read_pieces(const std::string& source, int line) {
  std::istringstream words(source);
  std::string word;
  std::vector<int> out;
  while (words >> word) {
    const char* at = word.data();
    int piece = -1;
    if (word != "-" && (!read_number(at, at + word.size(), piece) || at != word.data() + word.size()))
      bad(line, source, "the piece of each chunk, such as (0 7), or - for an empty one");
    out.push_back(piece);
  }
  return out;
}

}  // namespace

std::string to_text(const Slot& slot) {
  if (slot.kind == SlotKind::no_op) return "-";
  return slot.chunk == 0 ? fmt::format("{}{}", static_cast<char>(slot.kind), slot.mb)
                         : fmt::format("{}{}.{}", static_cast<char>(slot.kind), slot.mb, slot.chunk);
}

std::string to_text(const Schedule& s) {
  std::string out =
      fmt::format("{}, {} stages, {} micro-batches, {} chunk{}{}\n", s.name, s.num_stages, s.num_micro_batches,
                  s.num_chunks, s.num_chunks == 1 ? "" : "s", s.forward_only ? ", forward only" : "");
  for (std::size_t stage = 0; stage < s.rows.size(); ++stage) {
    out += fmt::format("stage {}", stage);
    if (!s.pieces.empty()) {
      out += " (";
      for (std::size_t c = 0; c < s.pieces[stage].size(); ++c) {
        const int piece = s.pieces[stage][c];
        out += (c > 0 ? " " : "") + (piece < 0 ? std::string("-") : fmt::format("{}", piece));
      }
      out += ")";
    }
    out += " |";
    bool joined = false;
    for (const Slot& slot : s.rows[stage]) {
      out += (joined ? "+" : " ") + to_text(slot);
      joined = slot.joined;
    }
    out += "\n";
  }
  return out;
}

Schedule parse_schedule(const std::string& source) {
  return parse_schedule_text(source).schedule;
}

ScheduleText parse_schedule_text(const std::string& source) {
  std::istringstream in(source);
  std::string line;
  ScheduleText out;
  Schedule& s = out.schedule;
  int number = 0;
  bool headed = false;
  while (std::getline(in, line)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!headed) {
      const auto comma = line.find(',');
      char rest[64] = {};
      long long sizes[3] = {};  // wider than what they go into, so that a number too large is seen
      if (comma == std::string::npos ||
          std::sscanf(line.c_str() + comma, ", %lld stages, %lld micro-batches, %lld chunk%63[^\n]", &sizes[0], &sizes[1],
                      &sizes[2], rest) < 3 ||
          std::any_of(std::begin(sizes), std::end(sizes), [](long long n) { return n < 1 || n > INT_MAX; }))
        bad(number, line, "a heading such as \"1f1b, 2 stages, 4 micro-batches, 1 chunk\"");
      s.num_stages = static_cast<int>(sizes[0]), s.num_micro_batches = static_cast<int>(sizes[1]);
      s.num_chunks = static_cast<int>(sizes[2]);
      s.name = line.substr(0, comma);
      s.forward_only = std::string(rest).find("forward only") != std::string::npos;
      headed = true;
      continue;
    }
    const auto bar = line.find('|');
    const auto open = line.find('(');
    int stage = -1, used = 0;
    if (bar == std::string::npos || std::sscanf(line.c_str(), "stage %d %n", &stage, &used) < 1 || used == 0 ||
        stage != static_cast<int>(s.rows.size()) ||
        (static_cast<std::size_t>(used) != bar && static_cast<std::size_t>(used) != open))
      bad(number, line, fmt::format("the row \"stage {} | F0 ...\"", s.rows.size()));
    if (open < bar) {
      const auto close = line.find(')');
      if (close == std::string::npos || close > bar) bad(number, line, "the pieces in brackets, such as (0 7)");
      s.pieces.resize(s.rows.size());
      s.pieces.push_back(read_pieces(line.substr(open + 1, close - open - 1), number));
    }
    s.rows.emplace_back();
    out.lines.push_back(number);
    std::istringstream words(line.substr(bar + 1));
    std::string word;
    while (words >> word) read_word(word, number, s.rows.size() - 1, s.rows.back());
  }
  if (!headed || static_cast<int>(s.rows.size()) != s.num_stages)
    throw ConfigError({.key = "schedule",
                       .value = fmt::format("{} rows", s.rows.size()),
                       .allowed = fmt::format("a heading and {} rows", s.num_stages)});
  if (!s.pieces.empty()) s.pieces.resize(s.rows.size());
  return out;
}

}  // namespace trireme::plan
