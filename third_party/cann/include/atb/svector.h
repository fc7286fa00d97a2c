// ATB's array: as many elements as fit into it, or as were reserved. The layout is the clients', who copy such objects.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <new>
#include <stdexcept>

namespace atb {

constexpr size_t MAX_SVECTOR_SIZE = 256;
constexpr size_t DEFAULT_SVECTOR_SIZE = 64;

struct MaxSizeExceeded : std::exception {};

// T is trivially copyable.
template <class T>
class SVector {
 public:
  SVector() = default;
  SVector(std::initializer_list<T> list) { *this = list; }
  explicit SVector(std::size_t size, const T& value = T{}) {
    require(size <= DEFAULT_SVECTOR_SIZE);
    for (size_ = 0; size_ < size; ++size_) storage_[size_] = value;
  }
  SVector(const SVector& other) {
    if (other.heap_ != nullptr) reserve(other.capacity_);
    copy(other.begin(), other.size_);
  }
  ~SVector() { std::free(heap_); }
  SVector& operator=(const SVector& other) {
    if (this == &other) return *this;
    require(other.size_ <= room());
    copy(other.begin(), other.size_);
    return *this;
  }
  SVector& operator=(std::initializer_list<T> list) {
    require(list.size() <= room());
    copy(list.begin(), list.size());
    return *this;
  }

  void push_back(const T& value) {
    require(size_ < room());
    data()[size_++] = value;
  }
  // Empties it, and makes room for more than there is in the object itself.
  void reserve(std::size_t size) {
    require(size <= MAX_SVECTOR_SIZE);
    if (size <= DEFAULT_SVECTOR_SIZE) return;
    std::free(heap_);
    heap_ = static_cast<T*>(std::malloc(size * sizeof(T)));
    if (heap_ == nullptr) throw std::bad_alloc();
    for (std::size_t i = 0; i < size; ++i) new (heap_ + i) T{};
    capacity_ = size;
    size_ = 0;
  }
  void resize(std::size_t size) {
    require(size <= room());
    size_ = size;
  }
  void clear() noexcept { size_ = 0; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* data() noexcept { return heap_ != nullptr ? heap_ : storage_; }
  const T* data() const noexcept { return heap_ != nullptr ? heap_ : storage_; }
  T* begin() noexcept { return data(); }
  const T* begin() const noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* end() const noexcept { return data() + size_; }
  T& at(std::size_t i) { return const_cast<T&>(static_cast<const SVector&>(*this).at(i)); }
  const T& at(std::size_t i) const {
    if (i >= size_) throw std::out_of_range("SVector");
    return data()[i];
  }
  T& operator[](std::size_t i) { return at(i); }
  const T& operator[](std::size_t i) const { return at(i); }

 private:
  static void require(bool fits) {
    if (!fits) throw MaxSizeExceeded();
  }
  std::size_t room() const noexcept { return heap_ != nullptr ? capacity_ : DEFAULT_SVECTOR_SIZE; }
  void copy(const T* from, std::size_t count) {
    for (size_ = 0; size_ < count; ++size_) data()[size_] = from[size_];
  }

  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
  T storage_[DEFAULT_SVECTOR_SIZE + 1] = {};
  T* heap_ = nullptr;
};

}  // namespace atb
