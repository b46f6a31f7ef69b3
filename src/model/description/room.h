// A fixed number of places for plain values, left uninitialised until they are set: what is never used costs nothing.
#pragma once
#include <cstddef>
#include <type_traits>

namespace trireme::model {

template <class T, std::size_t capacity>
class Room {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  Room() {}  // NOLINT: nothing is initialised
  T& operator[](std::size_t i) { return places_[i]; }
  const T& operator[](std::size_t i) const { return places_[i]; }
  T* begin() { return places_; }
  const T* begin() const { return places_; }

 private:
  union {
    T places_[capacity];
  };
};

}  // namespace trireme::model
