#include <cstdio>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/errors.h"
#include "plan/all_to_all/pattern.h"

namespace trireme::plan {
namespace {

std::string to_text(const Members& m) {
  if (m.count == 1) return fmt::format("{}", m.first);
  if (m.stride == 1) return fmt::format("{}..{}", m.first, m.last());
  return fmt::format("{}..{}/{}", m.first, m.last(), m.stride);
}

bool parse(const std::string& text, Members& out) {
  int first = 0, last = 0, stride = 1, used = 0;
  if (std::sscanf(text.c_str(), "%d%n", &first, &used) != 1) return false;
  if (used == static_cast<int>(text.size())) {
    out = {.first = first};
    return true;
  }
  used = 0;
  if (std::sscanf(text.c_str(), "%d..%d%n", &first, &last, &used) != 2) return false;
  if (used != static_cast<int>(text.size())) {
    used = 0;
    if (std::sscanf(text.c_str(), "%d..%d/%d%n", &first, &last, &stride, &used) != 3) return false;
    if (used != static_cast<int>(text.size())) return false;
  }
  if (stride < 1 || last <= first || (last - first) % stride != 0) return false;
  out = {.first = first, .count = (last - first) / stride + 1, .stride = stride};
  return true;
}

bool parse(std::string text, Parcel& out) {
  out = {};
  const auto colon = text.find(':');
  if (colon != std::string::npos) {
    const std::string rows = text.substr(colon + 1);
    if (rows != "once" && rows != "all") return false;
    out.rows = rows == "once" ? Rows::once : Rows::all;
    text.resize(colon);
  }
  const auto arrow = text.find('>');
  return arrow != std::string::npos && parse(text.substr(0, arrow), out.sources) &&
         parse(text.substr(arrow + 1), out.destinations);
}

// ", after a, b, in flight 4" behind a phase's name.
bool parse_heading(const std::string& text, Pattern& p) {
  Phase phase;
  std::istringstream parts(text);
  std::string part;
  bool in_after = false, named = false;
  while (std::getline(parts, part, ',')) {
    part.erase(0, part.find_first_not_of(' '));
    if (!named) {
      phase.name = part;
      named = true;
      continue;
    }
    if (part.rfind("in flight ", 0) == 0) {
      if (std::sscanf(part.c_str(), "in flight %d", &phase.in_flight) != 1 || phase.in_flight < 1) return false;
      in_after = false;
      continue;
    }
    if (part.rfind("after ", 0) == 0) {
      in_after = true;
      part = part.substr(6);
    }
    int found = -1;
    for (int i = 0; i < static_cast<int>(p.phases.size()); ++i)
      if (p.phases[static_cast<std::size_t>(i)].name == part) found = i;
    if (!in_after || found < 0) return false;
    phase.after.push_back(found);
  }
  p.phases.push_back(std::move(phase));
  return named;
}

}  // namespace

std::string to_text(const Pattern& p) {
  std::string out = fmt::format("{}, {} members{}\n", p.name, p.size, p.flow == Flow::combine ? ", combine" : "");
  for (const Phase& phase : p.phases) {
    out += fmt::format("phase {}", phase.name);
    for (std::size_t i = 0; i < phase.after.size(); ++i)
      out += fmt::format("{}{}", i == 0 ? ", after " : ", ", p.phases[static_cast<std::size_t>(phase.after[i])].name);
    if (phase.in_flight > 0) out += fmt::format(", in flight {}", phase.in_flight);
    out += "\n";
    for (const Transfer& t : phase.transfers) {
      out += fmt::format("  {} -> {} :", t.from, t.to);
      for (const Parcel& parcel : t.parcels) {
        out += fmt::format(" {}>{}", to_text(parcel.sources), to_text(parcel.destinations));
        if (parcel.rows != Rows::each) out += parcel.rows == Rows::once ? ":once" : ":all";
      }
      out += "\n";
    }
  }
  return out;
}

Pattern parse_pattern(const std::string& text) {
  std::istringstream in(text);
  std::string line;
  Pattern p;
  int number = 0;
  const auto bad = [&](const std::string& allowed) {
    throw ConfigError({.key = fmt::format("pattern line {}", number), .value = line, .allowed = allowed});
  };
  bool headed = false;
  while (std::getline(in, line)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    if (!headed) {
      const auto comma = line.find(',');
      int used = 0;
      if (comma == std::string::npos || std::sscanf(line.c_str() + comma, ", %d members%n", &p.size, &used) != 1 ||
          used == 0 || p.size < 1)
        bad("a heading such as \"flat, 4 members\"");
      const std::string rest = line.substr(comma + static_cast<std::size_t>(used));
      if (!rest.empty() && rest != ", combine") bad("\", combine\" or nothing behind the number of members");
      p.flow = rest.empty() ? Flow::dispatch : Flow::combine;
      p.name = line.substr(0, comma);
      headed = true;
    } else if (line.rfind("phase ", 0) == 0) {
      if (!parse_heading(line.substr(6), p)) bad("a phase such as \"phase redistribute, after remote, in flight 4\"");
    } else {
      Transfer t;
      int used = 0;
      if (std::sscanf(line.c_str(), " %d -> %d :%n", &t.from, &t.to, &used) < 2 || used == 0 || p.phases.empty())
        bad("a transfer such as \"  0 -> 1 : 0>1\" inside a phase");
      std::istringstream words(line.substr(static_cast<std::size_t>(used)));
      std::string word;
      while (words >> word) {
        Parcel parcel;
        if (!parse(word, parcel)) bad("blocks such as 0>1, 0..3>4 or 0>4..7:once");
        t.parcels.push_back(parcel);
      }
      p.phases.back().transfers.push_back(std::move(t));
    }
  }
  if (!headed) bad("a heading such as \"flat, 4 members\"");
  return p;
}

}  // namespace trireme::plan
