// Graphs behind torch.accelerator.Graph.
#include "core/compat.h"

#if TORCH_NPU_HAS_GRAPH_IMPL
#include <ATen/core/GraphImplInterface.h>

#include "graph/graph.h"

namespace torch_npu::graph {
namespace {

// What was captured is ready to run: there is no second form to keep beside it or to make from it.
class AcceleratorGraph final : public at::GraphImplInterface {
 public:
  explicit AcceleratorGraph(const at::GraphImplArgs&) {}
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) override { graph_.capture_begin(pool, mode_of(mode)); }
  void capture_end() override { graph_.capture_end(); }
  void instantiate() override {}
  void replay() override { graph_.replay(); }
  void reset() override { graph_.reset(); }
  c10::MempoolId_t pool() const override { return graph_.pool(); }
  void enable_debug_mode() override {}
  void debug_dump(const std::string& path) override { graph_.debug_dump(path); }

 private:
  static aclmdlRICaptureMode mode_of(at::GraphCaptureMode mode) {
    switch (mode) {
      case at::GraphCaptureMode::ThreadLocal:
        return ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;
      case at::GraphCaptureMode::Relaxed:
        return ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
      default:
        return ACL_MODEL_RI_CAPTURE_MODE_GLOBAL;
    }
  }

  Graph graph_;
};

using at::GraphImplRegistry;
using at::RegistererGraphImplRegistry;
REGISTER_GRAPH_IMPL(NPU, AcceleratorGraph)

}  // namespace
}  // namespace torch_npu::graph
#endif
