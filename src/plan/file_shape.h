// Files that a run has written are read as strictly as a user's: somebody may have edited, cut or mixed them.
#pragma once
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace trireme::plan {

// ConfigError with the file and the dotted key ("stages[0].actions[3].lane") for the first place where `found` has not the
// shape of `sample`: another type, a key that the sample has not, a number out of range. The sample is what a run could
// have written, with each optional key and each array's first element. Numbers are whole where the sample's is, finite,
// and at least 0, or where the sample's is negative at least that (whole ones), or any (others).
void check_shape(const nlohmann::json& found, const nlohmann::json& sample, const std::string& file);

// Likewise where a word of `found` was not understood: `again` is what came of it, written once more.
void check_words(const nlohmann::json& found, const nlohmann::json& again, const std::string& file);

// One with an element or a key of each kind.
nlohmann::json sample_plan();
nlohmann::json sample_prediction();
nlohmann::json sample_measured();
nlohmann::json sample_costs();

}  // namespace trireme::plan
