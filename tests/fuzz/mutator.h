// Makes wrong inputs of right ones. The same seed gives the same inputs.
#pragma once
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace trireme::fuzz {

class Mutator {
 public:
  Mutator(std::uint64_t seed, const std::vector<std::string>& seeds, const std::vector<std::string>& words)
      : random_(seed), seeds_(seeds), words_(words) {}

  // One of the seeds with one to eight changes; no longer than longest_input.
  std::string next();
  static constexpr std::size_t longest_input = 1 << 16;

 private:
  void change(std::string& text);
  void change_bytes(std::string& text);
  void change_number(std::string& text);
  void change_value(std::string& text);
  void change_lines(std::string& text);
  void nest(std::string& text);
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }
  template <class List>
  const auto& one_of(const List& list) {
    return list[below(std::size(list))];
  }

  std::mt19937_64 random_;
  const std::vector<std::string>& seeds_;
  const std::vector<std::string>& words_;
};

}  // namespace trireme::fuzz
