// How a plan's work grows. Time is no measure of it here; the number of allocations is: a list of the model's parameters, a
// stage's actions and buffers, their prices and spans are all made of them.
#include <atomic>
#include <cstdlib>
#include <new>

#include <gtest/gtest.h>

#include "platform/platform_file.h"
#include "sim/price.h"

namespace {
std::atomic<long> allocations{0};
}

// Of the whole test program.
void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size > 0 ? size : 1)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace trireme::sim {
namespace {

// Four layers a stage, two micro-batches: twice the stages are twice the actions, buffers and parameters.
plan::RunSpec run_of(int stages) {
  plan::RunSpec r;
  r.model = {.name = "m", .vocab_size = 50, .hidden = 8, .num_layers = 4 * stages, .num_dense_layers = 1, .dense_ffn = 12,
             .attention = {.num_heads = 2, .num_kv_heads = 1, .head_dim = 4},
             .moe = {.num_experts = 4, .expert_ffn = 6, .router = {.top_k = 2}}};
  r.layout.pp = stages;
  r.layout.dp = 1;
  r.batch = {.sequence_length = 16, .micro_batch = 1, .global_batch = 2};
  r.device.threads = 1;
  return r;
}

long allocations_of(int stages) {
  const plan::RunSpec run = run_of(stages);
  const long before = allocations;
  const plan::Plan plan = plan::make_training_plan(run, plan::resolve_mesh(run, stages));
  EXPECT_TRUE(plan::problems(plan).empty());
  price(plan, run, platform::default_platform());
  return allocations - before;
}

TEST(PlanningWork, GrowsAsTheModelDoes) {
  const long few = allocations_of(16), many = allocations_of(64);
  // Four times as many stages and layers: linear work is at most four times as much, quadratic work nears sixteen.
  EXPECT_LT(many, 5 * few) << few << " and " << many;
}

}  // namespace
}  // namespace trireme::sim
