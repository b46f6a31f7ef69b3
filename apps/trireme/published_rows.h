// What `validate` and `calibrate` read: rows, the models that they name, platforms, and the profile to price with.
#pragma once
#include <string>
#include <vector>

#include "model/model_catalog.h"
#include "model/model_table.h"
#include "search/validation/prediction.h"
#include "trireme/context.h"

namespace trireme::apps {

class PublishedRows {
 public:
  // `models` empty: model_configs.csv beside the rows where there is one; names that it hasn't got are the catalog's.
  // A throughput.csv beside the rows may lend what they leave blank of their recipes (search::borrow_blanks).
  PublishedRows(const Context& context, const std::vector<std::string>& rows, const std::string& models);
  PublishedRows(const PublishedRows&) = delete;
  const std::vector<search::PreparedRow>& prepared() const { return prepared_; }

 private:
  search::PlatformLibrary platforms_;  // the prepared rows point into it
  std::vector<search::PreparedRow> prepared_;
};

// "": the profile `published` of the configs, or none where it isn't there; "uncalibrated": none.
platform::StackProfile choose_stack_profile(const Context& context, const std::string& name_or_file);

}  // namespace trireme::apps
