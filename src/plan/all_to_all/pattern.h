// An all-to-all as a value. Block (s, d) is what member s has for member d; how many rows it holds is not part of the
// pattern but bound later, to expected counts (sim) or to exchanged ones (the run). Transfers carry blocks in phases:
// a phase starts on a member when its previous phase is complete there.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace trireme::plan {

struct Block {
  int source = 0;
  int destination = 0;
  auto operator<=>(const Block&) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Block, source, destination)

struct Transfer {
  int from = 0;
  int to = 0;
  std::vector<Block> blocks;  // in the order in which they lie in the message
  bool operator==(const Transfer&) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Transfer, from, to, blocks)

struct Phase {
  std::string name;
  std::vector<Transfer> transfers;  // concurrent; from == to is a copy on the member
  bool operator==(const Phase&) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Phase, name, transfers)

struct Pattern {
  std::string name;
  int size = 1;  // members
  std::vector<Phase> phases;
  bool operator==(const Pattern&) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Pattern, name, size, phases)

std::string to_text(const Pattern& pattern);
Pattern parse_pattern(const std::string& text);  // ConfigError with the line

// Empty when right: every block leaves its source and is held by its destination, and by nobody else, after the last
// phase; no transfer carries what its sender does not hold.
std::vector<std::string> problems(const Pattern& pattern);

// The backward pass: phases reversed, every transfer and block turned round.
Pattern transpose(const Pattern& pattern);

// Blocks whose counts `member` must know before `phase`: those that it sends or receives there.
std::vector<Block> counts_needed(const Pattern& pattern, int member, int phase);

// Messages that leave a member for another one, and the rows they carry, when block (s, d) has counts[s * size + d] rows.
struct Traffic {
  int messages = 0;
  double rows = 0;
};
Traffic traffic(const Pattern& pattern, int member, const std::vector<double>& counts);

}  // namespace trireme::plan
