// An all-to-all as a value. Every member has tokens; a token has slots, each with the member it is for (k experts of a
// token, say). Block (s, d) is the rows, one a slot, that member s has for member d. A pattern says which messages
// carry which blocks; how many rows they hold is bound later, to expected counts (sim) or to exchanged ones (the run).
//
// In the dispatch flow rows go out and may be copied on the way: a token that several members of a node need crosses
// the network once. In the combine flow (the transpose) results come back and may be summed on the way, in ascending
// order of the members that they come from. Source of the terms: DeepEP's and X-MoE's node deduplication, Pangu Ultra
// MoE's all-gather (arXiv 2505.04519, sec. 5), Piper's HALO (arXiv 2605.05049, sec. 3).
#pragma once
#include <string>
#include <vector>

#include "plan/all_to_all/members.h"

namespace trireme::plan {

struct Block {
  int source = 0;
  int destination = 0;
  auto operator<=>(const Block&) const = default;
};

// What a parcel has of its blocks. Dispatch: a row a slot; a row a token that has a slot there; a row for every token
// of the source, wanted or not. Combine: the same sets, where a row of once and all is the sum over the parcel's
// sources.
enum class Rows { each, once, all };

// The blocks sources x destinations. In dispatch once and all have one source, in combine one destination.
struct Parcel {
  Members sources;
  Members destinations;
  Rows rows = Rows::each;
  auto operator<=>(const Parcel&) const = default;
  int num_blocks() const { return sources.count * destinations.count; }
};
Parcel block(int source, int destination);

struct Transfer {
  int from = 0;
  int to = 0;                   // from == to: on the member, no message
  std::vector<Parcel> parcels;  // in the order in which they lie in the message: in each, source-major
  bool operator==(const Transfer&) const = default;
};
int num_blocks(const Transfer& transfer);

struct Phase {
  std::string name;
  std::vector<Transfer> transfers;  // at most one from a member to another; in order of issue on both
  std::vector<int> after;           // phases that are complete on a member before it starts this one
  int in_flight = 0;                // most sends, and most receives, of a member at one time; 0: all
  bool operator==(const Phase&) const = default;
};

enum class Flow { dispatch, combine };

struct Pattern {
  std::string name;
  int size = 1;  // members
  Flow flow = Flow::dispatch;
  std::vector<Phase> phases;  // `after` only names earlier ones
  bool operator==(const Pattern&) const = default;
};

// "halo, 4 members" and a line a transfer: "  0 -> 2 : 0>2..3". A parcel is sources>destinations, members are "3",
// "0..3" or "0..6/2" (every second), and ":once" or ":all" follows where it is not each row.
std::string to_text(const Pattern& pattern);

// Empty when right: every block leaves its source, is held by one member at a time, which sends only what it held
// before the phase began, and ends at its destination; a token's rows once split are never taken for the token.
std::vector<std::string> problems(const Pattern& pattern);

// The backward pass, and the way back of results: phases reversed, every transfer and block turned round.
Pattern transpose(const Pattern& pattern);

// Whether rows are copied or summed on the way, so that it must know which rows are of the same token.
bool needs_tokens(const Pattern& pattern);

}  // namespace trireme::plan
