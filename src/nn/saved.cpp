#include "nn/saved.h"

#include <algorithm>

#include "base/errors.h"

namespace trireme::nn {

void NamedTensors::keep(std::string_view name, at::Tensor tensor) {
  if (!tensor.defined()) return;
  TRIREME_CHECK(!(*this)[name].defined(), "{} is kept twice", name);
  entries_.push_back({name, std::move(tensor)});
}

const at::Tensor& NamedTensors::operator[](std::string_view name) const {
  static const at::Tensor none;
  const auto at = std::find_if(begin(), end(), [&](const Entry& e) { return e.name == name; });
  return at == end() ? none : at->tensor;
}

at::Tensor NamedTensors::take(std::string_view name) {
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.name == name; });
  if (at == entries_.end()) return {};
  at::Tensor tensor = std::move(at->tensor);
  entries_.erase(at);
  return tensor;
}

std::vector<NamedTensors::Size> NamedTensors::sizes() const {
  std::vector<Size> out;
  for (auto e = begin(); e != end(); ++e) {
    const bool counted =
        std::any_of(begin(), e, [&](const Entry& other) { return other.tensor.is_alias_of(e->tensor); });
    out.push_back({e->name, Bytes(counted ? 0 : static_cast<double>(e->tensor.storage().nbytes()))});
  }
  return out;
}

Bytes NamedTensors::bytes() const {
  Bytes sum;
  for (const Size& size : sizes()) sum = sum + size.bytes;
  return sum;
}

}  // namespace trireme::nn
