#include "parallel/buffer_table.h"

#include "base/errors.h"

namespace trireme::parallel {

std::string describe(const plan::Buffer& buffer) {
  const char* kind = "";
  switch (buffer.kind) {
    case plan::BufferKind::boundary:
      kind = "boundary";
      break;
    case plan::BufferKind::saved:
      kind = "saved";
      break;
    case plan::BufferKind::gradient:
      kind = "gradient";
      break;
    case plan::BufferKind::batch:
      kind = "batch";
      break;
    case plan::BufferKind::weight_work:
      kind = "weight work";
      break;
    case plan::BufferKind::host:
      kind = "(of a chunk)";
      break;
  }
  std::string text = fmt::format("{} {}{}{}", kind, model::name_of(buffer.segment), buffer.message ? " message" : "",
                                 buffer.to_shared ? " to shared" : "");
  if (buffer.mb >= 0) text += fmt::format(" mb {}", buffer.mb);
  if (buffer.layer >= 0) text += fmt::format(" layer {}", buffer.layer);
  return text;
}

BufferTable::BufferTable(const plan::StagePlan& stage)
    : stage_(stage), values_(stage.buffers.size()), alive_(stage.buffers.size(), 0) {}

int BufferTable::only(const std::vector<int>& ids, plan::BufferKind kind, bool to_shared) const {
  int found = -1;
  for (const int id : ids) {
    if (stage_.buffers.at(id).kind != kind || stage_.buffers[id].to_shared != to_shared) continue;
    TRIREME_CHECK(found < 0, "an action has two buffers of one kind: {} and {}", describe(stage_.buffers[found]),
                  describe(stage_.buffers[id]));
    found = id;
  }
  return found;
}

int BufferTable::read_by(const plan::Action& action, plan::BufferKind kind) const {
  return only(action.reads, kind, false);
}

int BufferTable::allocated_by(const plan::Action& action, plan::BufferKind kind, bool to_shared) const {
  return only(action.allocates, kind, to_shared);
}

void BufferTable::put(int buffer, BufferValue value) {
  const std::lock_guard lock(mutex_);
  TRIREME_CHECK(!alive_.at(buffer), "{} is allocated twice", describe(stage_.buffers[buffer]));
  alive_[buffer] = 1;
  values_[buffer] = std::move(value);
}

template <class T>
const T& BufferTable::get(int buffer) const {
  TRIREME_CHECK(alive_.at(buffer), "{} is read but not allocated", describe(stage_.buffers[buffer]));
  const T* value = std::get_if<T>(&values_[buffer]);
  TRIREME_CHECK(value != nullptr, "{} holds something else", describe(stage_.buffers[buffer]));
  return *value;
}

nn::Boundary BufferTable::boundary(const plan::Action& action, plan::BufferKind kind) const {
  const std::lock_guard lock(mutex_);
  nn::Boundary out;
  for (const int buffer : action.reads)
    if (stage_.buffers.at(buffer).kind == kind) out = nn::joined(std::move(out), get<nn::Boundary>(buffer));
  return out;
}

nn::Batch BufferTable::batch(int buffer) const {
  const std::lock_guard lock(mutex_);
  return get<nn::Batch>(buffer);
}

template <class T>
T BufferTable::take(int buffer) {
  const std::lock_guard lock(mutex_);
  get<T>(buffer);
  T value = std::move(std::get<T>(values_[buffer]));
  values_[buffer] = std::monostate{};
  return value;
}

nn::Saved BufferTable::take_saved(int buffer) { return take<nn::Saved>(buffer); }

nn::WeightWork BufferTable::take_weight_work(int buffer) { return take<nn::WeightWork>(buffer); }

void BufferTable::free(const std::vector<int>& buffers) {
  for (const int buffer : buffers) {
    BufferValue dropped;  // destroyed outside of the lock: it may be large
    const std::lock_guard lock(mutex_);
    TRIREME_CHECK(alive_.at(buffer), "{} is freed but not allocated", describe(stage_.buffers[buffer]));
    alive_[buffer] = 0;
    dropped = std::exchange(values_[buffer], std::monostate{});
  }
}

std::vector<int> BufferTable::alive() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> out;
  for (std::size_t i = 0; i < alive_.size(); ++i)
    if (alive_[i]) out.push_back(static_cast<int>(i));
  return out;
}

}  // namespace trireme::parallel
