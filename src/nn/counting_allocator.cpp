#include "nn/counting_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>

namespace trireme::nn {
namespace {

std::atomic<std::int64_t> current{0}, peak{0};

struct Counted {
  c10::DataPtr inner;
  std::int64_t bytes;
};

void release(void* context) {
  auto* counted = static_cast<Counted*>(context);
  current.fetch_sub(counted->bytes, std::memory_order_relaxed);
  delete counted;
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    auto* counted = new Counted{inner_->allocate(bytes), static_cast<std::int64_t>(bytes)};
    const std::int64_t now = current.fetch_add(counted->bytes, std::memory_order_relaxed) + counted->bytes;
    std::int64_t highest = peak.load(std::memory_order_relaxed);
    while (now > highest && !peak.compare_exchange_weak(highest, now, std::memory_order_relaxed)) {
    }
    return {counted->inner.get(), counted, &release, counted->inner.device()};
  }
  // No raw deleter: raw_allocate needs the context to be the data, which it is not here.
  void copy_data(void* destination, const void* source, std::size_t count) const override {
    default_copy_data(destination, source, count);
  }

 private:
  c10::Allocator* inner_;
};

}  // namespace

void install_counting_allocator() {
  static CountingAllocator* installed = nullptr;
  if (installed != nullptr) return;
  // Lives as long as any tensor, so it is never destroyed. A higher priority than libtorch's own replaces that.
  installed = new CountingAllocator(c10::GetCPUAllocator());
  c10::SetCPUAllocator(installed, /*priority=*/100);
}

std::int64_t current_tensor_bytes() { return current.load(std::memory_order_relaxed); }
std::int64_t peak_tensor_bytes() { return peak.load(std::memory_order_relaxed); }
void reset_peak_tensor_bytes() { peak.store(current.load(std::memory_order_relaxed), std::memory_order_relaxed); }

}  // namespace trireme::nn
