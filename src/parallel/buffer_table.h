// The plan's buffers with what they hold, allocated, read and freed by plan buffer id. Safe for several lanes at once:
// the plan orders accesses to one buffer, the lock guards the table.
#pragma once
#include <memory>
#include <mutex>
#include <variant>
#include <vector>

#include "nn/boundary.h"
#include "nn/saved.h"
#include "plan/plan.h"

namespace trireme::parallel {

// A boundary or its gradient (fields that pass through are in every one of them until their reader), what a segment's
// backward needs or leaves to do for its weights, or a micro-batch.
using BufferValue = std::variant<std::monostate, nn::Boundary, nn::Saved, nn::WeightWork, nn::Batch>;

class BufferTable {
 public:
  explicit BufferTable(const plan::StagePlan& stage);

  // The one buffer of this kind among an action's reads; -1: none. A bug when there are several.
  int read_by(const plan::Action& action, plan::BufferKind kind) const;
  // Likewise among its allocates, of those that hold what goes to the shared expert or of the others.
  int allocated_by(const plan::Action& action, plan::BufferKind kind, bool to_shared = false) const;

  void put(int buffer, BufferValue value);  // must not be alive
  // All buffers of this kind (boundary or gradient) that an action reads, together; shares the tensors. Empty: it reads none.
  nn::Boundary boundary(const plan::Action& action, plan::BufferKind kind) const;
  nn::Batch batch(int buffer) const;
  // Of a backward, which frees its tensors one after another: the buffers stay allocated, empty, until they are freed.
  nn::Saved take_saved(int buffer);
  nn::WeightWork take_weight_work(int buffer);
  void free(const std::vector<int>& buffers);

  std::vector<int> alive() const;

 private:
  int only(const std::vector<int>& ids, plan::BufferKind kind, bool to_shared) const;
  template <class T>
  const T& get(int buffer) const;
  template <class T>
  T take(int buffer);

  const plan::StagePlan& stage_;
  mutable std::mutex mutex_;
  std::vector<BufferValue> values_;
  std::vector<char> alive_;
};

// "saved attention mb 1 layer 0": for errors.
std::string describe(const plan::Buffer& buffer);

}  // namespace trireme::parallel
