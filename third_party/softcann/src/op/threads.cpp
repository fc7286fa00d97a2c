#include "op/threads.h"

#include <ATen/Parallel.h>

#include "op/pool.h"
#include "op/scope.h"
#include "rt/device/consistency.h"
#include "rt/base/options.h"

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

namespace {

constinit thread_local bool is_consistent __attribute__((tls_model("initial-exec"))) = false;

}  // namespace

uint16_t settings_of_launch(bool parallel) {
  const uint16_t threads = parallel ? wanted_threads() : 0;
  return __builtin_expect(strongly_consistent(), 0) ? threads | consistent_bit : threads;
}

void follow_settings(uint16_t settings, bool parallel) {
  is_consistent = (settings & consistent_bit) != 0;
  if (parallel) follow_threads(settings & ~consistent_bit);
}

bool wants_consistency() { return is_consistent; }

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
