#include "op/threads.h"

#include <ATen/Parallel.h>

#include "op/pool.h"
#include "op/scope.h"
#include "rt/options.h"

namespace softcann::op {

void follow_threads(int threads) {
  if (this_thread.threads == threads || this_thread.threads == client_thread) return;
  this_thread.threads = threads;
  at::set_num_threads(threads);
}

uint16_t wanted_threads() {
  static const auto fixed = static_cast<uint16_t>(options().threads);
  return fixed ? fixed : static_cast<uint16_t>(at::get_num_threads());
}

uint16_t threads_of_launch() {
  this_thread.threads = client_thread;
  return wanted_threads();
}

ComputeScope::ComputeScope(uint16_t threads)
    : saved_(c10::impl::raw_local_dispatch_key_set), was_in_kernel_(this_thread.in_kernel) {
  follow_threads(threads);
  c10::impl::raw_local_dispatch_key_set = KernelScope::backend_only();
  this_thread.in_kernel = true;
}

ComputeScope::~ComputeScope() {
  c10::impl::raw_local_dispatch_key_set = saved_;
  this_thread.in_kernel = was_in_kernel_;
}

}  // namespace softcann::op
