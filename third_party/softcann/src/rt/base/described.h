// What clients make, fill in and destroy: descriptions, datasets, settings. Objects that hold nothing but values.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <type_traits>

#include "rt/base/error.h"
#include "rt/base/handles.h"

namespace softcann {

// Note [Descriptions]
// Such an object is read at many places, by its address, which is its handle. It is never freed, so that one look at it tells
// whether it is alive; and it is used again only after kRest others were destroyed: a handle that is used for too long, destroyed
// twice, or of another kind, is refused.
template <class T>
class Described {
 public:
  // A new one, alive, as T().
  static T* make() {
    Described& all = instance();
    const std::lock_guard<std::mutex> lock(all.mutex_);
    T* made = nullptr;
    if (all.resting_.size() <= kRest) {
      made = all.blocks_.add();
    } else {
      made = all.resting_.front();
      all.resting_.pop_front();
    }
    made->begin_life_at_address();
    return made;
  }
  static bool alive(const T* handle) { return instance().blocks_.find(handle) != nullptr; }
  // Drops what it holds. For one that is alive.
  static void drop(const T* handle) {
    auto* object = const_cast<T*>(handle);
    if (!object->end_life()) return;
    *object = T();
    Described& all = instance();
    const std::lock_guard<std::mutex> lock(all.mutex_);
    all.resting_.push_back(object);
  }

 private:
  static constexpr size_t kRest = 1024;
  static Described& instance() {
    static auto* all = new Described;
    return *all;
  }
  std::mutex mutex_;
  HandleBlocks<T> blocks_;
  std::deque<T*> resting_;
};

// One that the runtime owns and clients may be shown.
template <class T>
std::shared_ptr<T> owned(const T& like = {}) {
  T* made = Described<T>::make();
  *made = like;
  return {made, [](T* object) { Described<T>::drop(object); }};
}

// Whether it is alive; else the reason is recorded.
template <class T>
bool is_described(const T* handle, const char* name) {
  if (__builtin_expect(Described<std::remove_const_t<T>>::alive(handle), 1)) return true;
  if (handle == nullptr) {
    fail(ACL_ERROR_INVALID_PARAM, "%s is a null pointer", name);
  } else {
    fail(ACL_ERROR_INVALID_PARAM, "%s, %p, does not exist (destroyed, or never created)", name, static_cast<const void*>(handle));
  }
  return false;
}

#define SOFTCANN_DESCRIBED(handle, name) \
  if (!::softcann::is_described(handle, name)) return ACL_ERROR_INVALID_PARAM

// Entry points that do no more than make, drop or read such an object, for the files that define them. `HANDLE` is the
// parameter's type as CANN's header has it, `text` what errors call it; `value` and `none` are what the function tells of
// `handle`, and without one.
#define SOFTCANN_DESCRIPTION(TYPE, CREATE, DESTROY, HANDLE, text) \
  TYPE* CREATE() {                                                \
    SOFTCANN_ENTRY_VALUE(CREATE, nullptr);                        \
    return ::softcann::Described<TYPE>::make();                   \
  }                                                               \
  aclError DESTROY(HANDLE handle) {                               \
    SOFTCANN_ENTRY(DESTROY);                                      \
    SOFTCANN_DESCRIBED(handle, text);                             \
    ::softcann::Described<TYPE>::drop(handle);                    \
    return ACL_SUCCESS;                                           \
  }
#define SOFTCANN_DESCRIBED_VALUE(RESULT, NAME, HANDLE, text, value, none) \
  RESULT NAME(HANDLE handle) {                                            \
    SOFTCANN_ENTRY_VALUE(NAME, none);                                     \
    return ::softcann::is_described(handle, text) ? value : none;         \
  }

}  // namespace softcann
