// A lane as an accelerator stream and an edge as an event, device-generic through c10::impl::VirtualGuardImpl, so that
// no CUDA or ROCm header is needed. On CPU, whose Event::record, getStreamFromGlobalPool and record_stream throw, every
// call does nothing: work there is complete when its call returns.
#pragma once
#include <memory>
#include <optional>

#include <ATen/core/Tensor.h>

namespace trireme::parallel {

class Stream {
 public:
  static Stream current(at::Device device);    // the one that the thread uses now
  static Stream from_pool(at::Device device);  // another one

  void synchronise() const;  // the host waits for all that was issued
  void keep_alive(
      const at::Tensor& tensor) const;  // the allocator must not reuse its storage before this stream is done

  // Makes a stream the thread's current one for a scope.
  class Scope {
   public:
    explicit Scope(const Stream& stream);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::optional<c10::Stream> previous_;
  };

 private:
  friend class Event;
  std::optional<c10::Stream> stream_;  // absent on CPU
};

// Re-recorded every step.
class Event {
 public:
  explicit Event(at::Device device);
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;
  ~Event();

  void record(const Stream& stream);
  void block(const Stream& stream) const;            // the stream waits for what was recorded
  double seconds_since(const Event& earlier) const;  // both complete; 0 on CPU

 private:
  struct State;
  std::unique_ptr<State> state_;  // null on CPU
};

}  // namespace trireme::parallel
