// What is fuzzed: a format that the program reads, its seeds, and how an input is read.
#pragma once
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace trireme::fuzz {

struct Format {
  std::string name;                        // "run_toml"
  std::vector<std::string> seeds;          // whole inputs that are good or nearly so
  std::vector<std::string> words;          // of the format, to be put in where a mutation wants one
  std::function<void(const std::string&)> read;  // as the program does: a value, ConfigError or RuntimeFailure
  bool refuses = true;  // some inputs; false: what is wrong is left out
};
inline void PrintTo(const Format& format, std::ostream* out) { *out << format.name; }

// A folder of this process for readers that take paths; emptied and removed when the process ends.
std::filesystem::path scratch_folder();
void write_file(const std::filesystem::path& path, const std::string& bytes);

// A format with its kept seeds.
Format format(const std::string& name, std::vector<std::string> seeds, std::vector<std::string> words,
              std::function<void(const std::string&)> read, bool refuses = true);
// A file of a good folder is the seed; `read` sees each input in its place, and then the good one is put back.
Format with_file(const std::string& name, const std::filesystem::path& file, std::vector<std::string> words, std::function<void()> read,
                 bool refuses = true);

// The files of tests/fuzz/seeds/<format>: inputs of its own, and those that were once read wrongly.
std::vector<std::string> kept_seeds(const std::string& format);
// The contents of a file of the source tree, or of an absolute path.
std::string source_file(const std::string& path);

std::vector<Format> planning_formats();    // runs, models, platforms, tables, schedules, names
std::vector<Format> run_folder_formats();  // plan.json and what lies beside it
std::vector<Format> training_formats();    // token files, text, checkpoints, the launcher's environment; with torch
std::vector<Format> tokenizer_formats();   // tokenizers and what an exported folder holds beside weights; with torch
std::vector<Format> resumed_formats();     // what a run that goes on reads of itself; with torch
std::vector<Format> all_formats();         // of this build

}  // namespace trireme::fuzz
