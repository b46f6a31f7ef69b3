// A question as keys and values: what `trireme plan --set KEY=VALUE` gives, of the tables layout, batch, precision,
// load and execution (docs/search.md lists them). A key that is given is kept by the search.
#pragma once
#include <string>
#include <vector>

#include "model/model_spec.h"
#include "search/layouts/question.h"

namespace trireme::search {

struct GivenValues {
  sim::Setting setting;         // with the model and the devices, defaults for what is not given
  std::set<std::string> given;  // dotted keys
  std::string kernels;          // a name or a file; empty: not given
  std::vector<std::string> hints;  // on keys of before
};

// ConfigError for an unknown key (with the nearest), a value out of range, an unknown format or schedule. Where no
// global batch is given: 8 sequences a device, at most 16,384 in all or one a device, whichever is more.
GivenValues read_question(const model::ModelSpec& model, int num_devices, const std::vector<std::string>& overrides);

// Whether a key names a part of the model and not of the question.
bool is_model_key(const std::string& override_text);

}  // namespace trireme::search
