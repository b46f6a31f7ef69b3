#include "plan/all_to_all/pattern.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>

#include "base/errors.h"

namespace trireme::plan {

std::string to_text(const Pattern& p) {
  std::string out = fmt::format("{}, {} members\n", p.name, p.size);
  for (const Phase& phase : p.phases) {
    out += fmt::format("phase {}\n", phase.name);
    for (const Transfer& t : phase.transfers) {
      out += fmt::format("  {} -> {} :", t.from, t.to);
      for (const Block& b : t.blocks) out += fmt::format(" {}>{}", b.source, b.destination);
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
      if (comma == std::string::npos || std::sscanf(line.c_str() + comma, ", %d members", &p.size) != 1 || p.size < 1)
        bad("a heading such as \"flat, 4 members\"");
      p.name = line.substr(0, comma);
      headed = true;
    } else if (line.rfind("phase ", 0) == 0) {
      p.phases.push_back({.name = line.substr(6)});
    } else {
      Transfer t;
      int used = 0;
      if (std::sscanf(line.c_str(), " %d -> %d :%n", &t.from, &t.to, &used) < 2 || used == 0 || p.phases.empty())
        bad("a transfer such as \"  0 -> 1 : 0>1\" inside a phase");
      std::istringstream words(line.substr(used));
      std::string word;
      while (words >> word) {
        Block b;
        if (std::sscanf(word.c_str(), "%d>%d", &b.source, &b.destination) != 2) bad("blocks such as 0>1");
        t.blocks.push_back(b);
      }
      p.phases.back().transfers.push_back(std::move(t));
    }
  }
  if (!headed) bad("a heading such as \"flat, 4 members\"");
  return p;
}

std::vector<std::string> problems(const Pattern& p) {
  std::vector<std::string> out;
  const auto inside = [&](int member) { return member >= 0 && member < p.size; };
  std::map<Block, int> holder;
  for (int s = 0; s < p.size; ++s)
    for (int d = 0; d < p.size; ++d) holder[{s, d}] = s;
  for (std::size_t i = 0; i < p.phases.size(); ++i) {
    std::map<Block, int> moved;
    for (const Transfer& t : p.phases[i].transfers) {
      if (!inside(t.from) || !inside(t.to)) {
        out.push_back(fmt::format("phase {}: transfer {} -> {} is outside {} members", i, t.from, t.to, p.size));
        continue;
      }
      for (const Block& b : t.blocks) {
        if (!inside(b.source) || !inside(b.destination))
          out.push_back(fmt::format("phase {}: block {}>{} is outside {} members", i, b.source, b.destination, p.size));
        else if (holder[b] != t.from)
          out.push_back(fmt::format("phase {}: {} sends block {}>{}, which {} holds", i, t.from, b.source,
                                    b.destination, holder[b]));
        else if (!moved.emplace(b, t.to).second)
          out.push_back(fmt::format("phase {}: block {}>{} is sent twice", i, b.source, b.destination));
      }
    }
    for (const auto& [block, to] : moved) holder[block] = to;
  }
  for (const auto& [block, at] : holder)
    if (at != block.destination)
      out.push_back(fmt::format("block {}>{} ends at {}", block.source, block.destination, at));
  return out;
}

Pattern transpose(const Pattern& p) {
  Pattern out{.name = p.name + " transposed", .size = p.size};
  for (auto phase = p.phases.rbegin(); phase != p.phases.rend(); ++phase) {
    Phase turned{.name = phase->name};
    for (const Transfer& t : phase->transfers) {
      Transfer back{t.to, t.from, {}};
      for (const Block& b : t.blocks) back.blocks.push_back({b.destination, b.source});
      turned.transfers.push_back(std::move(back));
    }
    out.phases.push_back(std::move(turned));
  }
  return out;
}

std::vector<Block> counts_needed(const Pattern& p, int member, int phase) {
  std::set<Block> blocks;
  for (const Transfer& t : p.phases.at(phase).transfers)
    if (t.from == member || t.to == member) blocks.insert(t.blocks.begin(), t.blocks.end());
  return {blocks.begin(), blocks.end()};
}

Traffic traffic(const Pattern& p, int member, const std::vector<double>& counts) {
  TRIREME_CHECK(static_cast<int>(counts.size()) == p.size * p.size);
  Traffic out;
  for (const Phase& phase : p.phases)
    for (const Transfer& t : phase.transfers) {
      if (t.from != member || t.to == member) continue;
      ++out.messages;
      for (const Block& b : t.blocks) out.rows += counts[b.source * p.size + b.destination];
    }
  return out;
}

}  // namespace trireme::plan
