#include "plan/pipeline/schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "base/errors.h"

namespace trireme::plan {

namespace {

std::string text(const Slot& slot) {
  return slot.chunk == 0 ? fmt::format("{}{}", static_cast<char>(slot.kind), slot.mb)
                         : fmt::format("{}{}.{}", static_cast<char>(slot.kind), slot.mb, slot.chunk);
}

Slot parse_slot(const std::string& word, int line) {
  Slot slot;
  std::size_t used = 0;
  bool good = word.size() > 1 && std::string("FBIW").find(word[0]) != std::string::npos && std::isdigit(word[1]);
  if (good) {
    slot.kind = static_cast<SlotKind>(word[0]);
    slot.mb = std::stoi(word.substr(1), &used);
    ++used;
    if (used < word.size()) {
      good = word[used] == '.' && used + 1 < word.size() && std::isdigit(word[used + 1]);
      if (good) {
        std::size_t more = 0;
        slot.chunk = std::stoi(word.substr(used + 1), &more);
        good = used + 1 + more == word.size();
      }
    }
  }
  if (!good)
    throw ConfigError({.key = fmt::format("schedule line {}", line), .value = word,
                       .allowed = "a slot such as F0, B3, I2 or W2.1 (kind, micro-batch, chunk)"});
  return slot;
}

// Which kinds a stage must hold for every micro-batch and chunk: F and B, or F, I and W, or F alone.
struct Seen {
  int forward = 0, backward = 0, input = 0, weight = 0;
};

}  // namespace

std::string to_text(const Schedule& s) {
  std::string out = fmt::format("{}, {} stages, {} micro-batches, {} chunk{}{}\n", s.name, s.num_stages,
                                s.num_micro_batches, s.num_chunks, s.num_chunks == 1 ? "" : "s",
                                s.forward_only ? ", forward only" : "");
  for (int stage = 0; stage < static_cast<int>(s.rows.size()); ++stage) {
    out += fmt::format("stage {} |", stage);
    for (const Slot& slot : s.rows[stage]) out += " " + text(slot);
    out += "\n";
  }
  return out;
}

Schedule parse_schedule(const std::string& source) {
  std::istringstream in(source);
  std::string line;
  Schedule s;
  int number = 0;
  bool headed = false;
  while (std::getline(in, line)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!headed) {
      const auto comma = line.find(',');
      char rest[64] = {};
      if (comma == std::string::npos ||
          std::sscanf(line.c_str() + comma, ", %d stages, %d micro-batches, %d chunk%63[^\n]", &s.num_stages,
                      &s.num_micro_batches, &s.num_chunks, rest) < 3)
        throw ConfigError({.key = fmt::format("schedule line {}", number), .value = line,
                           .allowed = "a heading such as \"1f1b, 2 stages, 4 micro-batches, 1 chunk\""});
      s.name = line.substr(0, comma);
      s.forward_only = std::string(rest).find("forward only") != std::string::npos;
      headed = true;
      continue;
    }
    int stage = -1, used = 0;
    if (std::sscanf(line.c_str(), "stage %d |%n", &stage, &used) < 1 || used == 0 ||
        stage != static_cast<int>(s.rows.size()))
      throw ConfigError({.key = fmt::format("schedule line {}", number), .value = line,
                         .allowed = fmt::format("the row \"stage {} | F0 ...\"", s.rows.size())});
    std::istringstream words(line.substr(used));
    std::string word;
    s.rows.emplace_back();
    while (words >> word) s.rows.back().push_back(parse_slot(word, number));
  }
  if (!headed || static_cast<int>(s.rows.size()) != s.num_stages)
    throw ConfigError({.key = "schedule", .value = fmt::format("{} rows", s.rows.size()),
                       .allowed = fmt::format("a heading and {} rows", s.num_stages)});
  return s;
}

std::vector<std::string> problems(const Schedule& s) {
  std::vector<std::string> out;
  if (s.num_stages < 1 || s.num_micro_batches < 1 || s.num_chunks < 1 ||
      static_cast<int>(s.rows.size()) != s.num_stages)
    return {fmt::format("{} rows for {} stages", s.rows.size(), s.num_stages)};
  for (int stage = 0; stage < s.num_stages; ++stage) {
    std::map<std::pair<int, int>, Seen> seen;
    for (const Slot& slot : s.rows[stage]) {
      if (slot.mb < 0 || slot.mb >= s.num_micro_batches || slot.chunk < 0 || slot.chunk >= s.num_chunks) {
        out.push_back(fmt::format("stage {}: {} is outside {} micro-batches and {} chunks", stage, text(slot),
                                  s.num_micro_batches, s.num_chunks));
        continue;
      }
      Seen& x = seen[{slot.mb, slot.chunk}];
      switch (slot.kind) {
        case SlotKind::forward: ++x.forward; break;
        case SlotKind::backward: ++x.backward; break;
        case SlotKind::input_gradient: ++x.input; break;
        case SlotKind::weight_gradient: ++x.weight; break;
      }
      if (slot.kind != SlotKind::forward && x.forward == 0)
        out.push_back(fmt::format("stage {}: {} comes before its forward", stage, text(slot)));
      if (slot.kind == SlotKind::weight_gradient && x.input == 0)
        out.push_back(fmt::format("stage {}: {} comes before its input gradient", stage, text(slot)));
      if (slot.kind != SlotKind::forward && s.forward_only)
        out.push_back(fmt::format("stage {}: {} in a forward-only schedule", stage, text(slot)));
    }
    for (int mb = 0; mb < s.num_micro_batches; ++mb)
      for (int chunk = 0; chunk < s.num_chunks; ++chunk) {
        const Seen x = seen[{mb, chunk}];
        const bool whole = x.forward == 1 && (s.forward_only || (x.backward == 1 && x.input == 0 && x.weight == 0) ||
                                              (x.backward == 0 && x.input == 1 && x.weight == 1));
        if (!whole)
          out.push_back(fmt::format(
              "stage {}: micro-batch {} chunk {} has {} F, {} B, {} I, {} W; one F and one B (or one I and one W) are due",
              stage, mb, chunk, x.forward, x.backward, x.input, x.weight));
      }
  }
  if (!out.empty()) return out;

  // Execute the grid: a slot runs when what it needs from the neighbouring chunk is done. Chunk c of stage s is piece
  // c * stages + s.
  const int pieces = s.num_stages * s.num_chunks;
  std::set<std::pair<int, int>> forwards, backwards;  // (piece, mb)
  std::vector<std::size_t> at(s.num_stages, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < s.num_stages; ++stage) {
      while (at[stage] < s.rows[stage].size()) {
        const Slot& slot = s.rows[stage][at[stage]];
        const int piece = slot.chunk * s.num_stages + stage;
        bool ready = true;
        if (slot.kind == SlotKind::forward)
          ready = piece == 0 || forwards.count({piece - 1, slot.mb});
        else if (slot.kind != SlotKind::weight_gradient)
          ready = piece == pieces - 1 || backwards.count({piece + 1, slot.mb});
        if (!ready) break;
        if (slot.kind == SlotKind::forward) forwards.insert({piece, slot.mb});
        else if (slot.kind != SlotKind::weight_gradient) backwards.insert({piece, slot.mb});
        ++at[stage];
        moved = true;
      }
    }
  }
  for (int stage = 0; stage < s.num_stages; ++stage)
    if (at[stage] < s.rows[stage].size())
      out.push_back(fmt::format("stage {} can't go on at slot {} ({}): what it needs is never made", stage, at[stage],
                                text(s.rows[stage][at[stage]])));
  return out;
}

int peak_in_flight(const Schedule& s, int stage) {
  int now = 0, peak = 0;
  for (const Slot& slot : s.rows.at(stage)) {
    if (slot.kind == SlotKind::forward) peak = std::max(peak, ++now);
    if (slot.kind == SlotKind::backward || slot.kind == SlotKind::weight_gradient) --now;
  }
  return peak;
}

}  // namespace trireme::plan
