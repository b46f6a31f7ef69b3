#include "plan/pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors.h"
#include "plan/pipeline/generators.h"

namespace trireme::plan {
namespace {

using ::testing::ElementsAre;

std::vector<int> counts(const LayoutSpec& l, int num_layers) {
  std::vector<int> out;
  int next = 0;
  for (const model::LayerRange& r : layers_of_pieces(l, num_layers)) {
    EXPECT_EQ(r.first_layer, next);
    next += r.num_layers;
    out.push_back(r.num_layers);
  }
  EXPECT_EQ(next, num_layers);
  return out;
}

TEST(Pieces, LayersAsEvenAsPossibleOrAsTold) {
  LayoutSpec l{.pp = 3};
  EXPECT_THAT(counts(l, 7), ElementsAre(3, 2, 2));
  const auto even = layers_of_pieces(l, 7);
  EXPECT_EQ(even[0], (model::LayerRange{.first_layer = 0, .num_layers = 3, .embed = true}));
  EXPECT_EQ(even[2], (model::LayerRange{.first_layer = 5, .num_layers = 2, .head = true, .mtp = true}));
  l.stage_layers = {1, 2, 4};
  EXPECT_THAT(counts(l, 7), ElementsAre(1, 2, 4));
}

TEST(Pieces, LayersOfStagesAreSpreadOverTheirChunks) {
  // Two chunks a stage, in the model's order: the first chunks of stages 0 to 3, then the second ones. A stage of three
  // layers has two of them in its first chunk.
  LayoutSpec l{.pp = 4, .virtual_stages = 2, .schedule = "interleaved_1f1b"};
  l.stage_layers = {3, 3, 2, 2};
  EXPECT_THAT(counts(l, 10), ElementsAre(2, 2, 1, 1, 1, 1, 1, 1));
  // A V goes back: the second chunks are those of stages 3 to 0. It has two chunks whatever virtual_stages says.
  for (const int chunks : {1, 2}) {
    l.schedule = "zero_bubble_v", l.virtual_stages = chunks;
    l.stage_layers = {3, 3, 2, 4};
    EXPECT_THAT(counts(l, 12), ElementsAre(2, 2, 1, 2, 2, 1, 1, 1));
  }
  l.stage_layers = {2, 2, 2, 2, 1, 1, 1, 1};
  EXPECT_THAT(counts(l, 12), ElementsAre(2, 2, 2, 2, 1, 1, 1, 1));
}

TEST(Pieces, AreThoseOfTheSchedules) {
  for (const std::string& name : schedule_names())
    for (const int chunks : {1, 2, 3}) {
      LayoutSpec l{.pp = 4, .virtual_stages = chunks, .schedule = name};
      Schedule schedule;
      try {
        schedule = make_schedule(name, {.num_stages = 4, .num_micro_batches = 8, .num_chunks = chunks});
      } catch (const ConfigError&) {
        continue;  // a number of chunks that it doesn't have
      }
      EXPECT_EQ(num_pieces(l), num_pieces(schedule)) << name;
      for (int stage = 0; stage < 4; ++stage)
        for (int chunk = 0; chunk < schedule.num_chunks; ++chunk)
          EXPECT_EQ(piece_of(l, stage, chunk), piece_of(schedule, stage, chunk)) << name;
    }
}

TEST(Pieces, WhatDoesNotFit) {
  LayoutSpec l{.pp = 2, .virtual_stages = 2, .schedule = "interleaved_1f1b"};
  const auto wanted = [&](std::vector<std::int64_t> told) {
    l.stage_layers = std::move(told);
    EXPECT_FALSE(stage_layers_fit(l, 4));
    EXPECT_THROW(layers_of_pieces(l, 4), ConfigError);
    return stage_layers_wanted(l, 4);
  };
  EXPECT_EQ(wanted({2, 1}), "must sum to model.num_layers (4)");
  EXPECT_EQ(wanted({1, 1, 2}), "must have layout.pp (2) entries, or layout.pp * layout.virtual_stages (2 * 2) entries");
  EXPECT_EQ(wanted({5, -1}), "must sum to model.num_layers (4)");
}

}  // namespace
}  // namespace trireme::plan
