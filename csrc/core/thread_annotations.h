// What guards what, written so that clang checks it (-Wthread-safety; ci/lint.sh). Other compilers see nothing of it.
//
// The standard library's mutex and guards carry no annotations where it is GCC's, so annotated data are guarded by the types
// below. Lambdas are analysed alone: one that needs a lock takes it itself.
#pragma once

#include <mutex>

#if defined(__clang__)
#define NPU_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define NPU_THREAD_ANNOTATION(x)
#endif

#define NPU_CAPABILITY(name) NPU_THREAD_ANNOTATION(capability(name))               // a lock
#define NPU_SCOPED_CAPABILITY NPU_THREAD_ANNOTATION(scoped_lockable)               // a guard of a lock
#define NPU_GUARDED_BY(lock) NPU_THREAD_ANNOTATION(guarded_by(lock))               // data that need the lock
#define NPU_REQUIRES(...) NPU_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))  // a function whose caller holds it
#define NPU_EXCLUDES(...) NPU_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))       // a function whose caller must not
#define NPU_ACQUIRE(...) NPU_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define NPU_RELEASE(...) NPU_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define NPU_NO_THREAD_SAFETY_ANALYSIS NPU_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace torch_npu::core {

class NPU_CAPABILITY("mutex") Mutex {
 public:
  void lock() NPU_ACQUIRE() { mutex_.lock(); }
  void unlock() NPU_RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

class NPU_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) NPU_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() NPU_RELEASE() {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  // For std::condition_variable, which gives the lock back only while it waits.
  std::unique_lock<std::mutex>& native() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace torch_npu::core
