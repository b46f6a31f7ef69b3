#include "parallel/stream.h"

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace trireme::parallel {

Stream Stream::current(at::Device device) {
  Stream out;
  if (!device.is_cpu()) out.stream_ = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  return out;
}

Stream Stream::from_pool(at::Device device) {
  Stream out;
  if (!device.is_cpu()) out.stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  return out;
}

void Stream::synchronise() const {
  if (stream_) c10::impl::VirtualGuardImpl(stream_->device_type()).synchronizeStream(*stream_);
}

void Stream::keep_alive(const at::Tensor& tensor) const {
  if (!stream_ || !tensor.defined() || tensor.device().is_cpu()) return;
  c10::impl::VirtualGuardImpl(stream_->device_type()).recordDataPtrOnStream(tensor.storage().data_ptr(), *stream_);
}

Stream::Scope::Scope(const Stream& stream) {
  if (stream.stream_)
    previous_ = c10::impl::VirtualGuardImpl(stream.stream_->device_type()).exchangeStream(*stream.stream_);
}

Stream::Scope::~Scope() {
  if (previous_) c10::impl::VirtualGuardImpl(previous_->device_type()).exchangeStream(*previous_);
}

struct Event::State {
  c10::Event event;
};

// BACKEND_DEFAULT: events with timing.
Event::Event(at::Device device) {
  if (!device.is_cpu()) state_.reset(new State{c10::Event(device.type(), c10::EventFlag::BACKEND_DEFAULT)});
}
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;
Event::~Event() = default;

void Event::record(const Stream& stream) {
  if (state_ && stream.stream_) state_->event.record(*stream.stream_);
}

void Event::block(const Stream& stream) const {
  if (state_ && stream.stream_) state_->event.block(*stream.stream_);
}

double Event::seconds_since(const Event& earlier) const {
  return state_ ? earlier.state_->event.elapsedTime(state_->event) * 1e-3 : 0.0;  // given in milliseconds
}

}  // namespace trireme::parallel
