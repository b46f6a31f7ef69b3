#include "fuzz/mutator.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace trireme::fuzz {
namespace {

// Around the limits of the types that numbers are read into.
constexpr std::string_view numbers[] = {
    "0", "-1", "1", "2", "3", "7", "127", "255", "256", "65536", "1000000", "2147483647", "2147483648", "-2147483648",
    "4294967296", "9007199254740993", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "18446744073709551615", "99999999999999999999999", "1e30", "1e308", "1e-308", "1e400", "-0.0", "0.5", "nan", "inf", "1.5e3"};
constexpr std::string_view values[] = {"[]", "{}", "\"\"", "\"x\"", "true", "false", "null", "-1", "[[1]]", "[1, \"a\"]",
                                       "{\"a\": 1}", "1979-05-27", "[1, 2, 3, 4, 5, 6, 7, 8, 9]", "\"\\u0000\"", "\"../x\"",
                                       "\"/dev/null\"", "9223372036854775807", "1e300"};
constexpr std::string_view bytes[] = {std::string_view("\0", 1), "\xff", "\xc0\x80", "\xed\xa0\x80", "\xef\xbb\xbf", "\r\n", "\n", "\t",
                                      "\x1b[31m", "\"", "'", "\\", "[", "]", "{", "}", "=", ",", ":", ".", "-", "#", "|", "(", ")"};

bool in_number(char c) { return std::isdigit(static_cast<unsigned char>(c)) || c == '.' || c == 'e' || c == '-' || c == '+'; }

}  // namespace

std::string Mutator::next() {
  std::string text = one_of(seeds_);
  const std::size_t changes = below(2) == 0 ? 1 : 1 + below(8);  // one alone is often still accepted, and goes further
  for (std::size_t i = 0; i < changes; ++i) change(text);
  if (text.size() > longest_input) text.resize(longest_input);
  return text;
}

void Mutator::change(std::string& text) {
  switch (below(12)) {
    case 0: case 1: case 2:
      return change_bytes(text);
    case 3: case 4: case 5:
      return change_number(text);
    case 6: case 7:
      return change_value(text);
    case 8: case 9:
      return change_lines(text);
    case 10:
      if (!words_.empty()) text.insert(below(text.size() + 1), one_of(words_));
      return;
    default:
      return nest(text);
  }
}

void Mutator::change_bytes(std::string& text) {
  const std::size_t at = below(text.size() + 1), left = text.size() - at;
  const std::size_t length = std::min(left, std::size_t{1} << below(10));
  switch (below(7)) {
    case 0:
      if (left > 0) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      return;
    case 1:
      if (left > 0) text[at] = static_cast<char>(below(256));
      return;
    case 2:
      text.insert(at, one_of(bytes));
      return;
    case 3:
      text.erase(at, length);
      return;
    case 4:
      text.insert(at, text.substr(at, length));
      return;
    case 5:
      text.resize(at);
      return;
    default: {  // a piece of another seed
      const std::string& other = one_of(seeds_);
      const std::size_t from = below(other.size() + 1);
      text.insert(at, other.substr(from, std::size_t{1} << below(10)));
    }
  }
}

// Replaces one of the numbers in the text; in binary text, eight bytes by a number near a limit.
void Mutator::change_number(std::string& text) {
  const std::size_t start = below(text.size() + 1);
  const auto found = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(start), text.end(),
                                  [](unsigned char c) { return std::isdigit(c); });
  if (found == text.end() || below(8) == 0) {
    static constexpr std::uint64_t limits[] = {0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff,
                                               0x7fffffffffffffff, 0x8000000000000000, 0xffffffffffffffff, 0x100000000};
    const std::uint64_t value = one_of(limits);
    const std::size_t width = std::size_t{1} << below(4);
    for (std::size_t i = 0; i < width && start + i < text.size(); ++i) text[start + i] = static_cast<char>(value >> (8 * i));
    return;
  }
  const auto begin = static_cast<std::size_t>(found - text.begin());
  std::size_t end = begin;
  while (end < text.size() && in_number(text[end])) ++end;
  text.replace(begin, end - begin, one_of(numbers));
}

// Replaces what stands between "=" or ":" and the end of the line, a comma or a bracket.
void Mutator::change_value(std::string& text) {
  const std::size_t at = text.find_first_of("=:", below(text.size() + 1));
  if (at == std::string::npos) return change_number(text);
  const std::size_t end = std::min(text.find_first_of(text[at] == '=' ? "\n" : ",}]\n", at), text.size());
  const bool word = !words_.empty() && below(2) == 0;
  text.replace(at + 1, end - at - 1, " " + (word ? one_of(words_) : std::string(one_of(values))));
}

void Mutator::change_lines(std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1);
    lines.push_back(text.substr(begin, end - begin + 1));
    begin = end + 1;
  }
  if (lines.empty()) return;
  const std::size_t at = below(lines.size()), other = below(lines.size());
  switch (below(4)) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), std::string(lines[other]));
      break;
    case 2:
      std::swap(lines[at], lines[other]);
      break;
    default:
      for (std::size_t i = 0, copies = std::size_t{1} << below(8); i < copies; ++i)
        lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), std::string(lines[at]));
  }
  text.clear();
  for (const std::string& line : lines)
    if (text.size() <= longest_input) text += line;
}

// Brackets in brackets: a reader that calls itself for each runs out of stack.
void Mutator::nest(std::string& text) {
  static constexpr std::string_view pairs[] = {"[]", "{}", "()", "{\"a\":}", "[[]]"};
  const std::string_view pair = one_of(pairs);
  const std::size_t depth = std::size_t{1} << below(15), half = pair.size() / 2 + pair.size() % 2;
  std::string open, close;
  for (std::size_t i = 0; i < depth && open.size() < longest_input / 4; ++i) open += pair.substr(0, pair.size() == 6 ? 5 : half), close += pair.substr(pair.size() == 6 ? 5 : half);
  const std::size_t at = below(text.size() + 1);
  text.insert(at, below(2) == 0 ? open : open + close);
}

}  // namespace trireme::fuzz
