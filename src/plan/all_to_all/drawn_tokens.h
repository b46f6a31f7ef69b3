// Tokens with experts drawn at random, for races and benches: a pure function of its arguments, so that every rank, and a
// program of another library, knows what all send.
#pragma once
#include <cstdint>
#include <vector>

namespace trireme::plan {

struct TokenDraw {
  int members = 1;
  double bytes_per_pair = 512;  // mean of what a member has for another one
  int top_k = 8;
  int experts = 256;  // rounded up to a multiple of the members; at least top_k
  std::uint64_t seed = 1;
  int per_member() const { return (experts + members - 1) / members; }  // experts of a member, in order
};

struct DrawnTokens {
  int tokens = 0;        // of each member
  double row_bytes = 0;  // a multiple of 4
  std::vector<std::vector<std::vector<int>>> experts;  // by member, token, slot; all sets of top_k equally likely
};
DrawnTokens draw_tokens(const TokenDraw& draw);

}  // namespace trireme::plan
