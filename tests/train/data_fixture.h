// A folder for one test, and token files in it.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/errors.h"
#include "train/data/token_file.h"

namespace trireme::train {

class DataTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              (std::string("trireme_") + info->test_suite_name() + "_" + info->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static std::string read_file(const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write_file(const std::string& name, const std::string& text) {
    std::ofstream(name, std::ios::binary) << text;
  }

  std::string write_tokens(const std::string& name, const std::vector<std::vector<std::int32_t>>& documents,
                           TokenType type = TokenType::uint16) const {
    TokenWriter writer(path(name), type);
    for (const auto& document : documents) writer.add_document(document);
    writer.finish();
    return path(name);
  }

  std::filesystem::path folder_;
};

template <class F>
std::string config_error_of(F&& f) {
  try {
    f();
  } catch (const ConfigError& e) {
    return e.what();
  }
  return "no error";
}

// Slots with storage.
struct StoredSequence {
  explicit StoredSequence(std::int64_t length)
      : tokens(static_cast<std::size_t>(length), -7),
        targets(tokens),
        positions(tokens),
        documents(tokens),
        weights(tokens.size(), -7.0f) {}
  std::vector<std::int64_t> tokens, targets, positions, documents;
  std::vector<float> weights;
  bool operator==(const StoredSequence&) const = default;
};

template <class Source>
StoredSequence read_sequence(const Source& source, std::int64_t number) {
  StoredSequence s(source.sequence_length());
  source.read(number, {s.tokens, s.targets, s.weights, s.positions, s.documents});
  return s;
}

}  // namespace trireme::train
