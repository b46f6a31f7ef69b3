#include "nn/counting_allocator.h"

#include <atomic>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

namespace trireme::nn {

namespace {

std::atomic<std::int64_t> held{0}, peak{0};

void add(std::int64_t bytes) {
  const std::int64_t now = held.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t highest = peak.load(std::memory_order_relaxed);
  while (now > highest && !peak.compare_exchange_weak(highest, now, std::memory_order_relaxed)) {
  }
}

// What a block needs to be given back and subtracted again.
struct Block {
  at::DataPtr inner;
  std::int64_t bytes;
};

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  held.fetch_sub(block->bytes, std::memory_order_relaxed);
  delete block;
}

class CountingAllocator final : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

  at::DataPtr allocate(std::size_t bytes) override {
    at::DataPtr data = inner_->allocate(bytes);
    void* pointer = data.get();
    if (pointer == nullptr) return data;
    add(static_cast<std::int64_t>(bytes));
    auto* block = new Block{std::move(data), static_cast<std::int64_t>(bytes)};
    return {pointer, block, &release, c10::DeviceType::CPU};
  }
  // A raw pointer could not be given back with its size.
  at::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* destination, const void* source, std::size_t count) const override {
    inner_->copy_data(destination, source, count);
  }

 private:
  c10::Allocator* inner_;
};

}  // namespace

void install_counting_allocator() {
  static CountingAllocator* const allocator = [] {
    auto* made = new CountingAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(made, 255);
    return made;
  }();
  (void)allocator;
}

MemoryCount counted_memory() { return {held.load(std::memory_order_relaxed), peak.load(std::memory_order_relaxed)}; }

void reset_peak_memory() { peak.store(held.load(std::memory_order_relaxed), std::memory_order_relaxed); }

}  // namespace trireme::nn
