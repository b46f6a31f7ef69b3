// Process groups of one rank, one per mesh axis, over c10d: Gloo on CPU, NCCL on CUDA where the torch build has it.
// Every call blocks its thread until the operation is complete on this rank (on CUDA: until it is in the current
// stream), and every member must issue a group's operations in the same order. One thread at a time per group.
// Any failure or time-out becomes RuntimeFailure with the operation and the group; the rank at fault where liveness
// knows it, else the neighbour that c10d names.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "plan/all_to_all/node_shape.h"
#include "plan/mesh.h"

namespace c10d {
class Store;
class Backend;
}  // namespace c10d

namespace trireme::comm {

class IssueOrder;
class Liveness;

enum class ReduceOp { sum, max, min };

class Group {
 public:
  virtual ~Group() = default;
  virtual int rank() const = 0;                         // of this process inside the group
  virtual const std::vector<int>& members() const = 0;  // global ranks, ascending in group rank
  int size() const { return static_cast<int>(members().size()); }
  virtual std::string describe() const = 0;  // "ep {0,1}"
  virtual c10d::Backend* backend() = 0;      // null for a group of one
  // Throws RuntimeFailure for an operation that failed here: names the rank that liveness knows to be dead, else `peer`
  // (a rank inside the group, -1: unknown).
  [[noreturn]] virtual void fail(const std::string& operation, int peer, const std::string& reason) = 0;

  std::string axis;
  at::Device device = at::kCPU;       // where its tensors live
  IssueOrder* issue_order = nullptr;  // not owned; null unless CommunicatorOptions::record_issue_order
};

// `operation` names what is done, for errors: "reduce dense bucket 2". A group of one does nothing (or copies).
void all_reduce(Group& group, at::Tensor& tensor, ReduceOp op, const std::string& operation);
void broadcast(Group& group, at::Tensor& tensor, int root, const std::string& operation);
std::vector<at::Tensor> all_gather(Group& group, const at::Tensor& tensor, const std::string& operation);
void barrier(Group& group, const std::string& operation);
// peer is a rank inside the group. Messages between two members with the same tag arrive in order.
void send(Group& group, const at::Tensor& tensor, int peer, int tag, const std::string& operation);
void receive(Group& group, at::Tensor& tensor, int peer, int tag, const std::string& operation);
// Rows of dim 0: send_counts[i] rows go to member i; zero is allowed anywhere. Returns the received rows, source-major.
at::Tensor all_to_all_rows(Group& group, const at::Tensor& rows, std::span<const std::int64_t> send_counts,
                           std::span<const std::int64_t> receive_counts, const std::string& operation);
// counts (P * n values, n for each member) -> what each member has for this rank (P * n).
std::vector<std::int64_t> exchange_counts(Group& group, std::span<const std::int64_t> counts,
                                          const std::string& operation);

struct CommunicatorOptions {
  int rank = 0;
  plan::Mesh mesh;
  at::Device device = at::kCPU;
  std::chrono::milliseconds timeout{60000};
  Liveness* liveness = nullptr;     // not owned; may be null
  std::string prefix;               // of store keys: several meshes in one store
  std::string interface;            // network interface for Gloo ("eth0"); empty: chosen, see network.h
  std::string master_address;       // a host that every rank reaches, to choose the address by; may be empty
  bool record_issue_order = false;  // debugging: see issue_order.h
};

// All groups of one rank. Construction and connect() are collective over the world; groups of size 1 cost nothing. A
// group that cannot be connected within the time-out is a RuntimeFailure.
class Communicator {
 public:
  Communicator(c10::intrusive_ptr<c10d::Store> store, const CommunicatorOptions& options);
  ~Communicator();  // releases, communicates nothing

  // Makes the groups of these kinds that are not there yet: those of messages between stages (plan::message_groups).
  // Every rank gives the same kinds in the same order, before any of them is used.
  void connect(const std::vector<plan::GroupKind>& kinds);

  // World, dp, ep, edp, embedding, or one that was connected (std::logic_error for another kind: nothing communicates
  // on it).
  Group& group(const plan::GroupKind& kind);
  // The members of a group by host. ConfigError (key layout.all_to_all) where those of a host are not consecutive.
  plan::NodeShape node_shape(const Group& group) const;

  // Ends every pending operation with an error, from any thread: used when a rank is known to be dead. The groups are
  // of no use afterwards; members on other ranks see their connections closed. Not concurrently with the destructor:
  // where Liveness calls it, the communicator outlives the Liveness, so is declared before it.
  void abort();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme::comm
