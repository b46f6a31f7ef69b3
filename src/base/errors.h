// The three kinds of error, and the exit code that main gives each.
#pragma once
#include <stdexcept>
#include <string>
#include <system_error>

#include <fmt/format.h>

namespace trireme {

// Bad input by the user: one clear line, exit code 2, before any work is done.
// `file` and `key` may be empty where there is none; `allowed` says what would have been right.
class ConfigError : public std::runtime_error {
 public:
  struct Detail {
    std::string file;     // as the user named it
    std::string key;      // dotted: layout.pp
    std::string value;    // as found
    std::string allowed;  // "a positive divisor of model.moe.experts (16)"
  };
  explicit ConfigError(Detail detail);
  const Detail& detail() const { return detail_; }

 private:
  Detail detail_;
};

// A failure while ranks run: exit code 3.
class RuntimeFailure : public std::runtime_error {
 public:
  struct Detail {
    int rank = -1;          // the rank that is at fault: the dead one where it is known
    std::string operation;  // "all_to_all dispatch (micro-batch 3, layer 1)"
    std::string group;      // "ep {0,1}"
    std::string reason;
  };
  explicit RuntimeFailure(Detail detail);
  const Detail& detail() const { return detail_; }

 private:
  Detail detail_;
};

inline constexpr int exit_ok = 0;
inline constexpr int exit_bug = 1;
inline constexpr int exit_bad_input = 2;
inline constexpr int exit_runtime_failure = 3;

// Whether an error of the file system says that a path was a bad one (missing folder, no permission, not a folder ...),
// which the user can put right before anything runs, and not that a disk is full or failing.
bool is_bad_path(const std::error_code& error);

[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

}  // namespace trireme

// A bug in Trireme itself when it fails (std::logic_error, exit code 1). Named so because torch owns CHECK.
#define TRIREME_CHECK(condition, ...)                                                                     \
  do {                                                                                                    \
    if (!(condition)) ::trireme::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (0)
