// The thread's state while a kernel runs.
#pragma once

#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include "op/pool.h"

namespace softcann::op {

// Whatever mode the calling thread is in (autograd, vmap, autocast, Python modes), kernels call plain backend code, and
// their temporaries come from the scratch cache. Two loads and four stores.
class KernelScope {
 public:
  KernelScope() : saved_(c10::impl::raw_local_dispatch_key_set), was_in_kernel_(this_thread.in_kernel) {
    c10::impl::raw_local_dispatch_key_set = backend_only();
    this_thread.in_kernel = true;
  }
  ~KernelScope() {
    c10::impl::raw_local_dispatch_key_set = saved_;
    this_thread.in_kernel = was_in_kernel_;
  }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

  static c10::impl::PODLocalDispatchKeySet backend_only() {
    static const c10::impl::PODLocalDispatchKeySet set = [] {
      using c10::DispatchKey;
      c10::impl::PODLocalDispatchKeySet pod{};
      pod.set_included(c10::DispatchKeySet({DispatchKey::BackendSelect}));
      pod.set_excluded(
          c10::autograd_dispatch_keyset | c10::autocast_dispatch_keyset | c10::python_ks | c10::functorch_transforms_ks |
          c10::DispatchKeySet({DispatchKey::ADInplaceOrView, DispatchKey::Functionalize, DispatchKey::Tracer, DispatchKey::Python,
                               DispatchKey::PythonTLSSnapshot, DispatchKey::PythonDispatcher, DispatchKey::PreDispatch,
                               DispatchKey::FuncTorchDynamicLayerFrontMode, DispatchKey::FuncTorchDynamicLayerBackMode,
                               DispatchKey::FuncTorchBatched, DispatchKey::FuncTorchVmapMode, DispatchKey::DeferredInit}));
      return pod;
    }();
    return set;
  }

 private:
  c10::impl::PODLocalDispatchKeySet saved_;
  bool was_in_kernel_;
};

}  // namespace softcann::op
