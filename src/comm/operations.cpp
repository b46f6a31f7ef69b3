#include <numeric>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/errors.h"
#include "comm/error_text.h"
#include "comm/group.h"
#include "comm/issue_order.h"

namespace trireme::comm {
namespace {

// Issues and waits. On CUDA the collectives run on the current stream (asyncOp = false) and may return no work.
template <class Issue>
void run(Group& group, const char* kind, int peer, const std::string& operation, Issue&& issue) {
  if (group.issue_order != nullptr && peer < 0) group.issue_order->record(kind, operation);
  std::string reason;
  try {
    const auto work = issue(*group.backend());
    if (!work || work->wait()) return;
    reason = "aborted";
  } catch (const std::exception& error) {
    reason = error_text(error);
  }
  group.fail(fmt::format("{} {}", kind, operation), peer, reason);
}

c10d::ReduceOp::RedOpType op_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::sum:
      break;
  }
  return c10d::ReduceOp::SUM;
}

std::int64_t sum(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

void check_tensor(const Group& group, const at::Tensor& tensor, const std::string& operation) {
  TRIREME_CHECK(tensor.is_contiguous(), "{}: the tensor of {} is not contiguous", group.describe(), operation);
  TRIREME_CHECK(tensor.device().type() == group.device.type(), "{}: the tensor of {} is on {}, the group on {}",
                group.describe(), operation, tensor.device().str(), group.device.str());
}

void check_peer(const Group& group, int peer, const std::string& operation) {
  TRIREME_CHECK(peer >= 0 && peer < group.size() && peer != group.rank(), "{}: {} has no peer {}", group.describe(),
                operation, peer);
}

}  // namespace

void all_reduce(Group& group, at::Tensor& tensor, ReduceOp op, const std::string& operation) {
  check_tensor(group, tensor, operation);
  if (group.size() == 1 || tensor.numel() == 0) return;
  run(group, "all_reduce", -1, operation, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{tensor};
    c10d::AllreduceOptions options;
    options.reduceOp = op_of(op);
    options.asyncOp = false;
    return backend.allreduce(tensors, options);
  });
}

void broadcast(Group& group, at::Tensor& tensor, int root, const std::string& operation) {
  check_tensor(group, tensor, operation);
  TRIREME_CHECK(root >= 0 && root < group.size(), "{}: {} has no root {}", group.describe(), operation, root);
  if (group.size() == 1 || tensor.numel() == 0) return;
  run(group, "broadcast", -1, operation, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    options.rootTensor = 0;
    options.asyncOp = false;
    return backend.broadcast(tensors, options);
  });
}

std::vector<at::Tensor> all_gather(Group& group, const at::Tensor& tensor, const std::string& operation) {
  check_tensor(group, tensor, operation);
  if (group.size() == 1) return {tensor.clone()};
  std::vector<std::vector<at::Tensor>> outputs(1);
  for (int i = 0; i < group.size(); ++i) outputs[0].push_back(at::empty_like(tensor));
  if (tensor.numel() == 0) return outputs[0];
  run(group, "all_gather", -1, operation, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> inputs{tensor};
    c10d::AllgatherOptions options;
    options.asyncOp = false;
    return backend.allgather(outputs, inputs, options);
  });
  return outputs[0];
}

void barrier(Group& group, const std::string& operation) {
  if (group.size() == 1) return;
  run(group, "barrier", -1, operation, [&](c10d::Backend& backend) {
    c10d::BarrierOptions options;
    if (group.device.is_cuda()) options.device = group.device;
    return backend.barrier(options);
  });
}

void send(Group& group, const at::Tensor& tensor, int peer, int tag, const std::string& operation) {
  check_tensor(group, tensor, operation);
  check_peer(group, peer, operation);
  run(group, "send", peer, operation, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{tensor};
    return backend.send(tensors, peer, tag);
  });
}

void receive(Group& group, at::Tensor& tensor, int peer, int tag, const std::string& operation) {
  check_tensor(group, tensor, operation);
  check_peer(group, peer, operation);
  run(group, "receive", peer, operation, [&](c10d::Backend& backend) {
    std::vector<at::Tensor> tensors{tensor};
    return backend.recv(tensors, peer, tag);
  });
}

at::Tensor all_to_all_rows(Group& group, const at::Tensor& rows, std::span<const std::int64_t> send_counts,
                           std::span<const std::int64_t> receive_counts, const std::string& operation) {
  check_tensor(group, rows, operation);
  const auto size = static_cast<std::size_t>(group.size());
  TRIREME_CHECK(rows.dim() >= 1 && send_counts.size() == size && receive_counts.size() == size,
                "{}: {} needs rows and {} counts each way", group.describe(), operation, size);
  TRIREME_CHECK(sum(send_counts) == rows.size(0), "{}: {} has {} rows but counts for {}", group.describe(), operation,
                rows.size(0), sum(send_counts));
  auto shape = rows.sizes().vec();
  shape[0] = sum(receive_counts);
  if (group.size() == 1) {
    TRIREME_CHECK(shape[0] == rows.size(0));
    return rows.clone();
  }
  at::Tensor received = at::empty(shape, rows.options());
  run(group, "all_to_all", -1, operation, [&](c10d::Backend& backend) {
    std::vector<std::int64_t> out(receive_counts.begin(), receive_counts.end());
    std::vector<std::int64_t> in(send_counts.begin(), send_counts.end());
    at::Tensor input = rows;
    c10d::AllToAllOptions options;
    options.asyncOp = false;
    return backend.alltoall_base(received, input, out, in, options);
  });
  return received;
}

std::vector<std::int64_t> exchange_counts(Group& group, std::span<const std::int64_t> counts,
                                          const std::string& operation) {
  const auto size = static_cast<std::size_t>(group.size());
  TRIREME_CHECK(counts.size() % size == 0, "{}: {} has {} counts for {} members", group.describe(), operation,
                counts.size(), size);
  if (size == 1 || counts.empty()) return {counts.begin(), counts.end()};
  const auto mine =
      at::from_blob(const_cast<std::int64_t*>(counts.data()), {static_cast<std::int64_t>(counts.size())}, at::kLong)
          .to(group.device);
  const std::vector<std::int64_t> each(size, static_cast<std::int64_t>(counts.size() / size));
  const auto theirs = all_to_all_rows(group, mine, each, each, operation).cpu();
  const auto* data = theirs.const_data_ptr<std::int64_t>();
  return {data, data + theirs.numel()};
}

}  // namespace trireme::comm
