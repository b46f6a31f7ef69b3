// A TOML file read strictly: every key is typed, and a key that nobody asked for is an error. Dotted overrides from the
// command line ("layout.pp=3", TOML syntax on the right; a bare word is taken as a string) are applied before reading.
// A number is 0 or has a magnitude within [smallest_number, largest_number], so that what is computed from a few of
// them stays finite; not-a-number and infinities are refused everywhere.
// Errors are ConfigError with the file, the dotted key, the value found and what is allowed.
#pragma once
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

inline constexpr double smallest_number = 1e-30, largest_number = 1e30;

class ConfigTable {
 public:
  static ConfigTable from_file(const std::filesystem::path& path, const std::vector<std::string>& overrides = {});
  static ConfigTable from_text(std::string_view text, std::string file_name,
                               const std::vector<std::string>& overrides = {});

  bool has(std::string_view key) const;  // does not mark the key as read
  bool is_string(std::string_view key) const;   // neither do these: for keys that take a value of several kinds
  bool is_array(std::string_view key) const;
  bool overridden(std::string_view key) const;  // given on the command line
  std::vector<std::string> given() const;       // every dotted key below this table that has a value, in no order

  // Each marks its key as read. The `_or` forms give the default where the key is absent.
  std::int64_t integer(std::string_view key, std::int64_t at_least = INT64_MIN, std::int64_t at_most = INT64_MAX);
  std::int64_t integer_or(std::string_view key, std::int64_t otherwise, std::int64_t at_least = INT64_MIN,
                          std::int64_t at_most = INT64_MAX);
  double number(std::string_view key, double at_least = -largest_number, double at_most = largest_number);
  double number_or(std::string_view key, double otherwise, double at_least = -largest_number,
                   double at_most = largest_number);
  bool boolean_or(std::string_view key, bool otherwise);
  std::string string(std::string_view key);
  std::string string_or(std::string_view key, std::string otherwise);
  std::string one_of_or(std::string_view key, std::string otherwise, std::initializer_list<std::string_view> allowed);
  // The bounds of lists hold for each of their entries.
  std::vector<std::int64_t> integers_or(std::string_view key, std::vector<std::int64_t> otherwise,
                                        std::int64_t at_least = INT64_MIN, std::int64_t at_most = INT64_MAX);
  std::vector<double> numbers_or(std::string_view key, std::vector<double> otherwise,
                                 double at_least = -largest_number, double at_most = largest_number);
  std::vector<std::string> strings_or(std::string_view key, std::vector<std::string> otherwise);
  ConfigTable table(std::string_view key);                     // an absent table reads as an empty one
  std::vector<ConfigTable> tables(std::string_view key);       // array of tables; absent: empty

  // Throws for the first key in this table, or in any table taken from it, that was never read; suggests the nearest.
  void finish() const;

  // The error to throw for a value that is well-formed but not possible.
  [[noreturn]] void fail(std::string_view key, std::string allowed) const;

  const std::string& file() const;
  std::string dotted(std::string_view key) const;
  std::string to_toml() const;  // the table with its overrides, for the run folder

 private:
  struct Node;
  explicit ConfigTable(std::shared_ptr<Node> node);
  [[noreturn]] void missing(std::string_view key, const char* wanted) const;
  void check_number(std::string_view key, double value, double at_least, double at_most) const;
  template <class T>
  std::vector<T> list_or(std::string_view key, std::vector<T> otherwise, const char* wanted);
  std::shared_ptr<Node> node_;
};

}  // namespace trireme
