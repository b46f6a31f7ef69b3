#include "support/rank_threads.h"

#include <thread>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace trireme::testing {
namespace {

void report(const std::vector<std::exception_ptr>& errors) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank)
    if (errors[rank])
      ADD_FAILURE() << "rank " << rank << " of " << errors.size() << " threw: " << text_of(errors[rank]);
}

}  // namespace

std::vector<std::exception_ptr> collect_rank_errors(int num_ranks, const StoreBody& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(num_ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank, store);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

std::vector<std::exception_ptr> collect_mesh_errors(const plan::Mesh& mesh, const MeshBody& body,
                                                    const RankThreadsOptions& options) {
  return collect_rank_errors(mesh.world(), [&](int rank, const c10::intrusive_ptr<c10d::Store>& store) {
    comm::CommunicatorOptions o;
    o.rank = rank;
    o.mesh = mesh;
    o.timeout = options.timeout;
    o.record_issue_order = options.record_issue_order;
    comm::Communicator communicator(store, o);
    body(rank, communicator);
  });
}

void run_ranks(int num_ranks, const StoreBody& body) {
  report(collect_rank_errors(num_ranks, body));
}

void run_mesh(const plan::Mesh& mesh, const MeshBody& body, const RankThreadsOptions& options) {
  report(collect_mesh_errors(mesh, body, options));
}

std::string text_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "not an exception of the standard library";
  }
}

}  // namespace trireme::testing
