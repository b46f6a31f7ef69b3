#include "nn/out_of_memory.h"

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <vector>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::nn {
namespace {

using testing::HasSubstr;

template <class F>
std::optional<std::string> what_fails(F&& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return out_of_memory(error);
  }
  ADD_FAILURE() << "nothing failed";
  return {};
}

// A process has 2^47 bytes of addresses (x86-64 and arm64: 2^48): 2^50 are refused whatever the kernel's policy.
TEST(OutOfMemory, IsToldOfATensor) {
  const auto text = what_fails([] { at::empty({std::int64_t{1} << 50}, at::kByte); });
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("out of memory: 1048576.00 GiB more were asked for"));  // 2^50 / 2^30
  EXPECT_THAT(*text, HasSubstr("tensors hold"));
}

TEST(OutOfMemory, IsToldOfSizesThatNoTensorHas) {
  EXPECT_TRUE(what_fails([] { at::empty({std::int64_t{1} << 40, std::int64_t{1} << 40}); }));
  EXPECT_TRUE(what_fails([] { std::vector<double>().resize(std::size_t{1} << 62); }));
  EXPECT_TRUE(what_fails([] { throw std::bad_alloc(); }));
}

// What std::thread throws where the stack of one more finds no room.
TEST(OutOfMemory, IsToldOfAThreadThatCannotStart) {
  const auto text = what_fails([] { throw std::system_error(EAGAIN, std::generic_category()); });
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, HasSubstr("the system starts no further thread"));
}

TEST(OutOfMemory, IsNotToldOfOtherErrors) {
  EXPECT_FALSE(what_fails([] { at::empty({2, 3}).matmul(at::empty({2, 3})); }));
  EXPECT_FALSE(what_fails([] { throw std::runtime_error("memory"); }));
}

}  // namespace
}  // namespace trireme::nn
