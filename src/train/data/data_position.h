// Where a run stands in its data: how many sequences it has taken, and of which set. A checkpoint keeps it, so that a
// resumed run goes on behind the last sequence whatever its batch and its layout are.
//
// A blend begins at a sequence of the run and at one of each of its sets; from there on its order is a function of the
// sequence's number (blend.h). When the blend changes, the next one begins where the last one stopped.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "train/data/blend.h"

namespace trireme::train {

struct SetPosition {
  std::string name, prefix;
  double weight = 1;               // 0: in no blend now, but it was in one before
  std::int64_t first = 0;          // sequence of the set with which the blend begins
  std::int64_t tokens_before = 0;  // taken before the blend began
  std::int64_t num_tokens = 0;     // of the file; 0: random
  std::string fingerprint;         // of its content (data_set.h)
  bool operator==(const SetPosition&) const = default;
};

struct DataPosition {
  std::uint64_t seed = 1;
  std::int64_t sequence_length = 0;
  bool reset_at_documents = true;
  std::int64_t blend_start = 0;  // the run's sequence with which the blend begins
  std::vector<SetPosition> sets;
  bool operator==(const DataPosition&) const = default;

  Blend blend() const;  // of the sets with a weight, in their order
  // Of each set, also of those without a weight, when the run has taken `sequences_seen`.
  std::vector<std::int64_t> sequences_of_sets(std::int64_t sequences_seen) const;  // the next one's number in the set
  std::map<std::string, std::int64_t> tokens_of_sets(std::int64_t sequences_seen) const;
};

struct ResumedPosition {
  DataPosition position;
  std::vector<std::string> messages;  // what has changed, in words
};

// What a resumed run needs to know of itself and its checkpoint.
struct Resuming {
  std::int64_t sequences_seen = 0;
  std::vector<std::string> allowed;  // checkpoint.allow_changes
  std::string file;                  // the run's, for errors
};

// The position of a run that is now configured as `now` (a fresh position) and was `before`. Weights may change, sets
// may come and go: each goes on behind its own last sequence. ConfigError where the seed is another one (unless "seed"
// is allowed); and, unless "data" is allowed, where a set has another content, no set is left, or the sequences are cut
// otherwise.
ResumedPosition resume_position(const DataPosition& before, const DataPosition& now, const Resuming& resuming);

// The form that a checkpoint keeps. ConfigError naming `file` and the key for anything that is missing or impossible.
nlohmann::json to_json(const DataPosition& position);
DataPosition data_position_from_json(const nlohmann::json& json, const std::string& file);

}  // namespace trireme::train
