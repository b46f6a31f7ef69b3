#include "comm/error_text.h"

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

TEST(ErrorText, SaysWhatAFailedAllocationIs) { EXPECT_EQ(error_text(std::bad_alloc()), "out of memory"); }

// EAGAIN is what std::thread throws where the stack of one more finds no room: its own words tell nothing of memory.
TEST(ErrorText, SaysThatNoThreadStarts) {
  EXPECT_EQ(error_text(std::system_error(EAGAIN, std::generic_category())),
            "out of memory: the system starts no further thread (is there an ulimit -v or -u?)");
}

TEST(ErrorText, LeavesOutSourcesAndAdvice) {
  EXPECT_EQ(error_text(std::runtime_error("[/gloo/pair.cc:12] Connection closed. This is typically caused by a dead peer\nframe #0")),
            "Connection closed");
}

}  // namespace
}  // namespace trireme::comm
