#include "fuzz/runner.h"

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>
#include <typeinfo>

#include "base/errors.h"
#include "base/rng.h"
#include "fuzz/mutator.h"
#include "fuzz/work_limit.h"

namespace trireme::fuzz {
namespace {

namespace fs = std::filesystem;

std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return name ? name.get() : type.name();
}

// Whether the error is one that main gives exit 2 or 3; else `what` says which it is.
bool is_refusal(std::string& what) {
  try {
    throw;
  } catch (const ConfigError&) {
    return true;
  } catch (const RuntimeFailure&) {
    return true;
  } catch (const std::system_error& e) {
    if (is_bad_path(e.code())) return true;
    what = name_of(typeid(e)) + ": " + e.what();
  } catch (const std::exception& e) {
    what = name_of(typeid(e)) + ": " + e.what();
  } catch (...) {
    what = "something that is no std::exception";
  }
  return false;
}

struct Outcome {
  bool refused = false;
  std::string what;  // empty: no fault
};

Outcome outcome_of(const Format& format, const std::string& input) {
  Outcome out;
  begin_input(format.name, input);
  try {
    format.read(input);
  } catch (...) {
    out.refused = is_refusal(out.what);
  }
  if (const std::string beyond = end_input(); !beyond.empty()) out.what = beyond;
  return out;
}

// In memory where the system has such a folder: much of what is read here is also written, and waits for a disk each time.
fs::path temporary_folder() {
  const char* memory = "/dev/shm";
  return ::access(memory, W_OK) == 0 ? fs::path(memory) : fs::temp_directory_path();
}

struct Scratch {
  fs::path folder = temporary_folder() / ("trireme_fuzz_" + std::to_string(::getpid()));
  Scratch() { fs::create_directories(folder); }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
};

}  // namespace

fs::path scratch_folder() {
  static const Scratch scratch;
  return scratch.folder;
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << bytes;
}

std::string source_file(const std::string& path) {
  std::ifstream in(fs::path(TRIREME_SOURCE_DIR) / path, std::ios::binary);
  TRIREME_CHECK(in.good(), "no {}", path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::vector<std::string> kept_seeds(const std::string& format) {
  std::vector<std::string> names, out;
  const std::string folder = "tests/fuzz/seeds/" + format;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(TRIREME_SOURCE_DIR) / folder, ignored)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) out.push_back(source_file(folder + "/" + name));
  return out;
}

Format format(const std::string& name, std::vector<std::string> seeds, std::vector<std::string> words,
              std::function<void(const std::string&)> read, bool refuses) {
  for (std::string& seed : kept_seeds(name)) seeds.push_back(std::move(seed));
  return {name, std::move(seeds), std::move(words), std::move(read), refuses};
}

Format with_file(const std::string& name, const fs::path& file, std::vector<std::string> words, std::function<void()> read,
                 bool refuses) {
  const std::string good = source_file(file);
  return format(name, {good}, std::move(words), [=](const std::string& input) {
    struct Restore {
      const fs::path& path;
      const std::string& good;
      ~Restore() { write_file(path, good); }
    } restore{file, good};
    write_file(file, input);
    read();
  }, refuses);
}

std::optional<Fault> fault_of(const Format& format, const std::string& input) {
  Outcome out = outcome_of(format, input);
  if (out.what.empty()) return std::nullopt;
  return Fault{input, std::move(out.what)};
}

Tally run(const Format& format, std::uint64_t seed, std::int64_t count, const std::function<void(const Fault&)>& found) {
  Tally tally;
  const auto one = [&](const std::string& input) {
    const Outcome out = outcome_of(format, input);
    ++tally.inputs;
    tally.refused += out.refused ? 1 : 0;
    if (out.what.empty()) return;
    ++tally.faults;
    found({input, out.what});
  };
  for (const std::string& input : format.seeds) one(input);
  Mutator mutator(stream_key(seed, format.name), format.seeds, format.words);
  for (std::int64_t i = 0; i < count; ++i) one(mutator.next());
  return tally;
}

}  // namespace trireme::fuzz
