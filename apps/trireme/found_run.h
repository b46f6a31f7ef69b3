// A layout that was found, as a complete run file.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "plan/layout_keys.h"
#include "plan/run_spec.h"
#include "platform/platform_spec.h"
#include "sim/estimate/setting.h"

namespace trireme::apps {

// What nobody asks a search about: where the run goes, and on what.
struct RunPlace {
  std::filesystem::path out;       // the run's file; its folder will hold runs/NAME
  std::filesystem::path platform;  // empty: none in the file
  std::string device = "cpu";      // cpu | cuda
  std::string data;                // a prefix of .bin and .idx; empty: random tokens
};

// A run of the question's model, batch and precision, with its layout, named as the file.
plan::RunSpec run_of(const sim::Setting& setting, const RunPlace& place);

// What `trireme train` can't execute of it, key by key: of the layout, the precision and the model.
std::vector<plan::RefusedKey> refused_by_train(const sim::Setting& setting);

// "layout.tp = 8 (must be 1)", ...
std::string refused_text(const std::vector<plan::RefusedKey>& refused);

// Written beside and renamed; `about` are lines of a comment at the top.
void write_run(const std::filesystem::path& path, const plan::RunSpec& run, const std::vector<std::string>& about);

}  // namespace trireme::apps
