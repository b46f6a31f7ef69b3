// Runs ranks as threads of this process: each gets a store, and with a mesh a Communicator over Gloo on loopback.
// No test may set OMP_PROC_BIND. A body's gtest assertions must be EXPECT_*: ASSERT_* only leaves the body's own rank.
#pragma once
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "comm/group.h"
#include "plan/mesh.h"

namespace trireme::testing {

struct RankThreadsOptions {
  std::chrono::milliseconds timeout{20000};
  bool record_issue_order = false;
};

using StoreBody = std::function<void(int rank, const c10::intrusive_ptr<c10d::Store>& store)>;
using MeshBody = std::function<void(int rank, comm::Communicator& communicator)>;

// What each rank threw; null where it ended well. All ranks share one in-memory store.
std::vector<std::exception_ptr> collect_rank_errors(int num_ranks, const StoreBody& body);
std::vector<std::exception_ptr> collect_mesh_errors(const plan::Mesh& mesh, const MeshBody& body,
                                                    const RankThreadsOptions& options = {});

// The same, failing the test for every rank that threw, with the rank and its error.
void run_ranks(int num_ranks, const StoreBody& body);
void run_mesh(const plan::Mesh& mesh, const MeshBody& body, const RankThreadsOptions& options = {});

// The text of an error; empty for null.
std::string text_of(const std::exception_ptr& error);

}  // namespace trireme::testing
