// A run's files as somebody may have edited, cut or mixed them: the reader says what is wrong, or reads them, and never
// more than that. Seeded, so that a failure comes again.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/errors.h"
#include "base/read_file.h"
#include "report/html_page.h"
#include "report/report_fixture.h"
#include "report/trace.h"

namespace trireme::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

class HostileRun : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("trireme_hostile_run_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
    plan::Plan plan = small_plan();
    plan::write_plan(folder_, plan);
    plan::Prediction prediction = small_prediction();
    prediction.ranks[0].phases = {{0, "rows", "local", 0, 0.25}};
    prediction.patterns = {{"flat", 0.75}};
    plan::write_prediction(folder_, prediction);
    for (auto m : small_measurement()) plan::write_measured(folder_, m);
    std::ofstream(folder_ / "metrics.jsonl") << "{\"step\": 1, \"loss\": 5.5, \"tokens_per_s\": 80}\n"
                                             << "{\"step\": 2, \"loss\": 5.0, \"eval_loss\": 4.75, \"bigram_loss\": 4.5}\n";
    std::ofstream(folder_ / "run_info.json") << R"({"run": "3f2a", "sessions": [{"started": "2026-01-02", "version": "0.1.0"}]})";
    for (const char* file : {"plan.json", "predicted.json", "measured/rank-00000.json", "measured/rank-00001.json", "metrics.jsonl",
                             "run_info.json"})
      good_[file] = read_file(folder_ / file);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& file, const std::string& text) { std::ofstream(folder_ / file, std::ios::binary) << text; }

  // Everything that `trireme report` does with a folder. Whether it was read; a ConfigError says that it was not.
  bool reported() {
    try {
      const RunReport r = make_run_report(folder_);
      const auto measured = r.measured_timelines();
      const std::string text = run_text(r);
      run_json(r);
      html_page({.title = "t", .text = text, .plan = r.plan, .predicted = r.prediction, .measured = measured, .report = &r, .facts = r.facts});
      trace_json(r.plan, {{"predicted", r.prediction.ranks}, {"measured", measured}});
      return true;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(folder_.filename().string()), std::string::npos) << e.what();
      return false;
    }
  }

  std::mt19937 random_{20'26};
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }

  std::string bytes_changed(std::string text) {
    for (std::size_t n = 1 + below(3); n > 0 && !text.empty(); --n) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0: text[at] = static_cast<char>(below(256)); break;
        case 1: text.erase(at, 1 + below(20)); break;
        case 2: text.insert(at, 1, "0123456789-e.,:[]{}\"n"[below(20)]); break;
        case 3: text.resize(at); break;
        default: text.insert(at, text.substr(below(text.size()), below(40))); break;
      }
    }
    return text;
  }

  // One value of a JSON document replaced by another, taken away, or doubled.
  json value_changed(json j) {
    const json flat = j.flatten();
    std::vector<std::string> places;
    for (const auto& [pointer, value] : flat.items()) {
      // A leaf or any of what it lies in.
      std::string place = pointer;
      for (std::size_t up = below(4); up > 0 && place.find_last_of('/') > 0; --up) place.resize(place.find_last_of('/'));
      places.push_back(place);
    }
    static const std::vector<json> values = {nullptr, -1, 0, 1, 2, 1'000'000, 2'147'483'647, 2'147'483'648, -2'147'483'648, 9e18, 1e300, -1e300,
                                             0.5, "", "compute", "receive", "backward", "dp", true, json::array(), json::object(),
                                             json::array({1'000'000}), json::array({-1, 0, 0}), json::array({json::array()})};
    const json::json_pointer at(places[below(places.size())]);
    if (at.empty()) return values[below(values.size())];
    json& parent = j[at.parent_pointer()];
    switch (below(4)) {
      case 0:
        if (parent.is_array()) parent.erase(std::stoul(at.back()));
        else parent.erase(at.back());
        break;
      case 1:
        if (parent.is_array()) parent.push_back(j[at]);
        else parent["more"] = parent[at.back()];
        break;
      default: j[at] = values[below(values.size())]; break;
    }
    return j;
  }

  fs::path folder_;
  std::map<std::string, std::string> good_;
};

TEST_F(HostileRun, IsReadOrRefusedAndNoMore) {
  ASSERT_TRUE(reported());
  int refused = 0, read = 0;
  for (int i = 0; i < 2000; ++i) {
    auto file = good_.begin();
    std::advance(file, static_cast<std::ptrdiff_t>(below(good_.size())));
    const bool lines = file->first == "metrics.jsonl";
    const std::string changed = lines || below(2) ? bytes_changed(file->second) : value_changed(json::parse(file->second)).dump();
    write(file->first, changed);
    SCOPED_TRACE(file->first + ": " + changed);
    ASSERT_NO_THROW(reported() ? ++read : ++refused);
    write(file->first, file->second);
  }
  // Most changes break something; some (a time, a loss, a name) leave a run that is as good as before.
  EXPECT_GT(refused, 1000);
  EXPECT_GT(read, 50);
}

TEST_F(HostileRun, EachFileMayBeMissingOrEmpty) {
  for (const auto& [file, text] : good_) {
    SCOPED_TRACE(file);
    write(file, "");
    EXPECT_EQ(reported(), file == "metrics.jsonl");  // that of a run before its first step
    fs::remove(folder_ / file);
    EXPECT_EQ(reported(), file != "plan.json" && file != "predicted.json");
    write(file, text);
  }
  EXPECT_TRUE(reported());
}

}  // namespace
}  // namespace trireme::report
