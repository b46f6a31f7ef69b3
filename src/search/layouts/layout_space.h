// The layouts that are searched, in four steps: degrees and micro-batch (a cell), the schedule with its pieces and how
// experts exchange rows (a family), what is computed again, and where states lie. Each step lists its choices in a
// fixed order; a given key leaves one choice. Choices that no model, machine or batch could tell apart are listed once.
//
// Limits, each of which a given key overrides: tp and etp up to 16 or the innermost level of the fabric, whichever is
// more; cp up to 64 with at least 2,048 tokens of a sequence on a rank; micro-batches up to 16 sequences; up to 8
// chunks a stage; shards over all data ranks, those of one innermost unit, or of 8 of them.
#pragma once
#include <vector>

#include "search/layouts/question.h"

namespace trireme::search {

// Which ranks there are and what they work on at a time: degrees and micro-batch. Bounds of time and the largest group
// of layouts that is dropped at once are of a cell; of one cell only the fastest layout is returned.
struct Cell {
  int pp = 1, tp = 1, cp = 1, ep = 1, etp = 1, dp = 1;
  std::int64_t micro_batch = 1;
};

// How layers are cut into pieces.
enum class Split { as_given, even, balanced_early, balanced_late };

// How a cell's micro-batches run through its stages: schedule, pieces of the model and how they are cut, and how
// experts exchange rows. All layouts of a family execute the same grid.
struct Family {
  std::string schedule;
  int virtual_stages = 1;
  std::string all_to_all;
  bool overlap_experts = false;
  Split split = Split::even;
};

// Which parts of a layer a family's backward computes again, in how many layers of a piece.
struct Recomputation {
  plan::RecomputeSet set;
  int layers = 0;
};

// Where parameters, gradients, optimizer state and saved activations lie between uses, and whether what that costs in
// messages runs beside compute. A cell, a family, a recomputation and states are one layout.
struct States {
  plan::Sharding sharding = plan::Sharding::none;
  int shard_degree = 0, expert_shard_degree = 0;
  plan::SwapSet swap;
  bool overlap_gradients = true, overlap_parameters = true;
};

// All cells that the degree rules admit.
std::vector<Cell> cells_of(const Question& question);
// Of a cell; without regard to the schedule rules, which depend on the pieces.
std::vector<Family> families_of(const Question& question, const Cell& cell);
std::vector<Family> families_of(const Question& question, const Cell& cell, const std::vector<std::string>& patterns);
std::vector<Recomputation> recomputations_of(const Question& question, int most_layers_of_a_piece);
std::vector<States> states_of(const Question& question, const Cell& cell);

// Writes a choice into a setting; strings and vectors keep their memory.
void apply(const Cell& cell, sim::Setting& setting);
void apply(const Family& family, sim::Setting& setting);  // but for the layers of pieces
void apply(const Recomputation& recomputation, sim::Setting& setting);
void apply(const States& states, sim::Setting& setting);

// Devices of the innermost unit that has several.
int innermost_devices(const Target& target);

// The patterns that the experts' messages of a setting's degrees and micro-batch may take: all that fit where the group
// lies, but for those that another one beats by itself, outside and inside of nodes, with the same work around it.
std::vector<std::string> patterns_of(const Question& question, const sim::Setting& setting);

}  // namespace trireme::search
