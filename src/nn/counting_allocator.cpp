#include "nn/counting_allocator.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>
#include <c10/core/impl/alloc_cpu.h>

#include <atomic>
#include <cstring>

namespace trireme::nn {
namespace {

std::atomic<std::int64_t> current{0}, peak{0};
#ifdef TRIREME_POISON
std::atomic<bool> poisons{true};
#else
std::atomic<bool> poisons{false};
#endif

// The size lies in front of the data, at the alignment of tensors. So the data pointer is all that a release needs,
// which libraries below ATen ask of an allocator (oneDNN's scratch goes through raw_allocate).
constexpr std::size_t header = c10::gAlignment;

void release(void* data) {
  if (data == nullptr) return;
  char* base = static_cast<char*>(data) - header;
  current.fetch_sub(*reinterpret_cast<std::int64_t*>(base), std::memory_order_relaxed);
  c10::free_cpu(base);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    const c10::Device device(c10::DeviceType::CPU);
    if (bytes == 0) return {nullptr, nullptr, &release, device};
    char* base = static_cast<char*>(c10::alloc_cpu(bytes + header));
    *reinterpret_cast<std::int64_t*>(base) = static_cast<std::int64_t>(bytes);
    if (poisons.load(std::memory_order_relaxed)) std::memset(base + header, 0xff, bytes);
    const std::int64_t added = static_cast<std::int64_t>(bytes);
    const std::int64_t now = current.fetch_add(added, std::memory_order_relaxed) + added;
    std::int64_t highest = peak.load(std::memory_order_relaxed);
    while (now > highest && !peak.compare_exchange_weak(highest, now, std::memory_order_relaxed)) {
    }
    return {base + header, base + header, &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, std::size_t count) const override {
    default_copy_data(destination, source, count);
  }
};

}  // namespace

void install_counting_allocator() {
  // Lives as long as any tensor, so it is never destroyed. A higher priority than libtorch's own replaces that.
  static CountingAllocator* const installed = [] {
    auto* allocator = new CountingAllocator;
    c10::SetCPUAllocator(allocator, /*priority=*/100);
    return allocator;
  }();
  (void)installed;
}

void poison_fresh_memory(bool on) {
  poisons.store(on, std::memory_order_relaxed);
}

std::int64_t current_tensor_bytes() {
  return current.load(std::memory_order_relaxed);
}
std::int64_t peak_tensor_bytes() {
  return peak.load(std::memory_order_relaxed);
}
void reset_peak_tensor_bytes() {
  peak.store(current.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

}  // namespace trireme::nn
