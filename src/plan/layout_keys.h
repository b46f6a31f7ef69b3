// The keys of [layout], one table. From it they are read, written, printed as JSON and CSV, given to a search and
// refused by `trireme train`: a key is added here and nowhere else.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/config_table.h"
#include "plan/layout_spec.h"

namespace trireme::plan {

struct LayoutKey {
  std::string name;  // below [layout]: "pp", "overlap.experts"
  std::string help;  // one line

  // Reads the key from the table that holds it (the last part of its name) where that has it; ConfigError for a value out
  // of range. `patterns` are what layout.all_to_all may be.
  std::function<void(ConfigTable& table, const std::string& key, const std::vector<std::string>& patterns, LayoutSpec&)>
      read;
  // Its value in a layout: a number, a switch, a name, or a list of numbers or names.
  std::function<nlohmann::json(const LayoutSpec&)> value;
  // What the value would have to be for `trireme train`; empty where train executes it, or where it says nothing.
  std::function<std::string(const LayoutSpec&)> refusal;
  bool open_in_training = true;  // whether train leaves a choice that a search could take
  bool lowered = false;          // whether what train refuses has a plan of segments all the same
};

// In the order in which they are written.
const std::vector<LayoutKey>& layout_keys();

// The [layout] table; the caller finishes it.
LayoutSpec read_layout(ConfigTable table, const std::vector<std::string>& patterns);
// [layout] and [layout.overlap], every key.
std::string to_toml(const LayoutSpec& layout);
// {"pp": 2, ..., "overlap": {"gradients": true, ...}}
nlohmann::json to_json(const LayoutSpec& layout);
// A value in a cell of a CSV file or a line of text: lists' entries with a space between them, switches as yes and no.
std::string cell_text(const nlohmann::json& value);

// What `trireme train` can't execute of a layout.
struct RefusedKey {
  std::string key;  // "layout.tp"
  std::string value;
  std::string wanted;  // "must be 1"
  bool lowered = false;  // has a plan of segments, which can be priced
};
std::vector<RefusedKey> refused_keys(const LayoutSpec& layout);

// Every key with its default and its line of help, for --help.
std::string layout_key_help();

}  // namespace trireme::plan
