// Bubbles and exposed messages, predicted against measured: tables and JSON of a report.
#pragma once
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "report/exposure.h"

namespace trireme::report {

// Of the same ranks; measured may be empty.
struct ExposurePair {
  const std::vector<RankExposure>& predicted;
  const std::vector<RankExposure>& measured;
};

// By phase over all ranks, with messages that are exposed for at least a thousandth of the step, and the bubble and the
// exposed part of dispatch and combine by rank. `measured_as` heads the measured columns.
std::string exposure_text(const ExposurePair& pair, const std::string& measured_as = "measured");

// {step, warm_up, steady, cool_down} of one side: the fractions of of_step() and of_phase().
nlohmann::json bubble_fractions(const std::vector<RankExposure>& ranks);
nlohmann::json exposed_all_to_all_fractions(const std::vector<RankExposure>& ranks);

// phases and ranks (rank, stage, phases); a phase: phase ("step" for all of it), and length_s, compute_s, bubble_s,
// bubble_fraction, exposed_all_to_all_fraction, messages (kind, lane, seconds, exposed_s), each number {predicted,
// `measured_as`: null where it was not measured}.
nlohmann::json exposure_json(const ExposurePair& pair, const std::string& measured_as = "measured");

}  // namespace trireme::report
