// An extension written as for the published torch_npu: its headers and names, CANN called by hand. test_cpp_extension.py builds
// it.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "third_party/acl/inc/acl/acl.h"
#include "torch_npu/csrc/aten/NPUGeneratorImpl.h"
#include "torch_npu/csrc/aten/common/from_blob.h"
#include "torch_npu/csrc/aten/mirror/NPUMemoryOverlap.h"
#include "torch_npu/csrc/core/NPUBridge.h"
#include "torch_npu/csrc/core/npu/DeviceUtils.h"
#include "torch_npu/csrc/core/npu/NPUCachingAllocator.h"
#include "torch_npu/csrc/core/npu/NPUEvent.h"
#include "torch_npu/csrc/core/npu/NPUFormat.h"
#include "torch_npu/csrc/core/npu/NPUGuard.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/core/npu/SecondaryStreamGuard.h"
#include "torch_npu/csrc/framework/OpCommand.h"
#include "torch_npu/csrc/framework/utils/OpAdapter.h"
#include "torch_npu/csrc/framework/utils/RandomOpAdapter.h"
#include "torch_npu/csrc/include/ops.h"
#include "torch_npu/csrc/npu/Module.h"

using npu_preparation = at_npu::native::OpPreparation;

// The bytes of `self` in memory of its own, copied on the current stream.
at::Tensor copy_of(const at::Tensor& self) {
  torch_npu::utils::torch_check_npu(self);
  const c10_npu::OptionalNPUGuard guard(self.device());
  at::Tensor result = npu_preparation::apply_tensor_without_format(self);
  const auto stream = c10_npu::getCurrentNPUStream().stream(false);
  at_npu::native::OpCommand command;
  command.Name("copy_of").SetCustomHandler([=]() -> int {
    return aclrtMemcpyAsync(result.data_ptr(), result.nbytes(), self.data_ptr(), self.nbytes(), ACL_MEMCPY_DEVICE_TO_DEVICE,
                            stream);
  });
  command.Run();
  return result;
}

// Operators by name: results, one of them not contiguous, inputs of the host and attributes of several types.
std::vector<at::Tensor> by_name(const at::Tensor& self) {
  using at_npu::native::OpCommand;
  at::Tensor sliced = at::empty_like(self), scaled = at::empty_like(self.t()).t(),
             reduced = at::empty({self.size(0)}, self.options());
  const c10::SmallVector<int64_t, 8> offsets = {0, 0}, sizes = {self.size(0), self.size(1)}, axes = {1};
  OpCommand().Name("Slice").Input(self.t().contiguous().t()).Input(offsets).Input(sizes).Output(sliced).Run();
  OpCommand().Name("Swish").Input(self).Output(scaled).Attr("scale", 2.0F).Attr("unused", std::string("text"), false).Run();
  OpCommand()
      .Name("LpNormReduceV2")
      .Input(self)
      .Output(reduced)
      .Attr("p", 2.0F)
      .Attr("axes", at::IntArrayRef(axes))
      .Attr("keepdim", false)
      .Run();
  at::Tensor boxes = at::zeros({3, 4}, self.options()), room = at::full({3}, -1, self.options().dtype(at::kInt)),
             limit = at::full({}, 0.5, self.options());
  boxes.select(1, 2).fill_(2), boxes.select(1, 3).fill_(2);  // all the same, so that one stays
  c10::SmallVector<int64_t, at_npu::native::N> found = {0};
  OpCommand()
      .Sync(found)
      .Name("NonMaxSuppressionV3")
      .Input(boxes)
      .Input(at::arange(3, self.options()))
      .Input(at::full({}, 3, room.options()))
      .Input(limit)
      .Input(limit)
      .Output(room)
      .Attr("offset", 0)
      .Run();
  return {sliced, scaled, reduced, room};
}

void refused_name(const at::Tensor& self) {
  at::Tensor out = at::empty_like(self);
  at_npu::native::OpCommand().Name("NobodysOperator").Input(self).Input().Output(out).Run();
}

void fail() {
  at_npu::native::OpCommand::RunOpApi("a_name", [] { return static_cast<int>(ACL_ERROR_INVALID_PARAM); });
}

// Whether the handles of streams are those of torch.npu, and setting one current holds for a scope.
bool streams_agree() {
  const auto side = c10_npu::getNPUStreamFromPool();
  const auto before = c10_npu::getCurrentNPUStream();
  if (side == before || side.stream() == before.stream()) return false;
  {
    const c10_npu::NPUStreamGuard guard(side.unwrap());
    if (c10_npu::getCurrentNPUStream() != side || c10_npu::getCurrentNPUStream().stream() != side.stream()) return false;
  }
  return c10_npu::getCurrentNPUStream() == before;
}

// Whether work on a secondary stream is done when the stream that came back is.
bool secondary_stream_is_waited_for() {
  const auto main = c10_npu::getCurrentNPUStream(), side = c10_npu::getNPUStreamFromPool();
  std::atomic<bool> done{false};
  {
    const c10_npu::SecondaryStreamGuard guard(side.unwrap());
    if (c10_npu::getCurrentNPUStream() != side) return false;
    const auto slow = [](void* flag) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      static_cast<std::atomic<bool>*>(flag)->store(true);
    };
    if (aclrtLaunchHostFunc(side.stream(), slow, &done) != ACL_SUCCESS) return false;
  }
  main.synchronize();
  const bool waited = done.load();
  side.synchronize();
  return waited && c10_npu::getCurrentNPUStream() == main;
}

// -1 where a cast from one base format to another is not the tensor itself.
int64_t format_and_type(const at::Tensor& self) {
  const auto cast = at_npu::native::npu_format_cast(self, ACL_FORMAT_ND);
  if (!cast.is_same(self)) return -1;
  return at_npu::native::get_npu_format(cast) * 100 + at_npu::native::CalcuOpUtil::ConvertToAclDataType(self.scalar_type());
}

// Whether events order streams and measure, and `self` is seen through a tensor of its memory.
bool events_and_memory_agree(const at::Tensor& self) {
  const auto main = c10_npu::getCurrentNPUStream(), side = c10_npu::getNPUStreamFromPool();
  c10_npu::NPUEvent start(ACL_EVENT_TIME_LINE), end(ACL_EVENT_TIME_LINE);
  if (start.isCreated() || !start.query()) return false;
  start.record();
  end.recordOnce(main);
  end.block(side);
  end.synchronize();
  if (!end.query() || start.elapsed_time(end) < 0 || end.device_index() != self.device().index()) return false;
  const auto view = at_npu::native::from_blob(self.data_ptr(), self.sizes(), self.options());
  const auto turned = at_npu::native::from_blob(self.data_ptr(), {self.size(1), self.size(0)}, {1, self.size(1)}, self.options());
  at_npu::native::assert_no_internal_overlap(view);
  c10_npu::NPUCachingAllocator::recordStream(self.storage().data_ptr(), side);
  const auto held = c10_npu::NPUCachingAllocator::getDeviceStats(self.device().index()).allocated_bytes[0].current;
  return view.device() == self.device() && at::equal(view, self) && at::equal(turned, self.t()) && held > 0;
}

// What the description of a tensor's storage says: formats, elements of its dtype; sizes, strides and sizes as they lie.
std::vector<std::vector<int64_t>> description(const at::Tensor& self) {
  const torch_npu::NPUStorageDesc& desc = torch_npu::NPUBridge::GetNpuStorageImplDesc(self);
  const auto list = [](const auto& sizes) { return std::vector<int64_t>(sizes.begin(), sizes.end()); };
  return {{desc.origin_format_, desc.npu_format_, static_cast<int64_t>(c10::typeMetaToScalarType(desc.data_type_))},
          list(desc.base_sizes_),
          list(desc.base_strides_),
          list(desc.storage_sizes_)};
}

// Memory of `self` from its second element on.
at::Tensor borrowed(const at::Tensor& self) {
  return at_npu::native::from_blob(self.data_ptr(), {self.numel() - 1}, {1}, 1, [keep = self](void*) {}, self.options());
}

// The numbers an operator would draw with, after `seed`.
std::vector<int64_t> draws(int64_t seed) {
  auto generator = at_npu::detail::createNPUGenerator();
  generator.set_current_seed(static_cast<uint64_t>(seed));
  auto* impl = at::check_generator<at_npu::NPUGeneratorImpl>(generator);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  const auto first = impl->philox_engine_inputs(10), second = impl->philox_engine_inputs(4);
  return {static_cast<int64_t>(first.first), static_cast<int64_t>(first.second), static_cast<int64_t>(second.second)};
}

TORCH_LIBRARY(published_extension, library) {
  library.def("description(Tensor self) -> int[][]", description);
  library.def("borrowed(Tensor self) -> Tensor", borrowed);
  library.def("events_and_memory_agree(Tensor self) -> bool", events_and_memory_agree);
  library.def("draws(int seed) -> int[]", draws);
  library.def("copy_of(Tensor self) -> Tensor", copy_of);
  library.def("by_name(Tensor self) -> Tensor[]", by_name);
  library.def("refused_name(Tensor self) -> ()", refused_name);
  library.def("fail() -> ()", fail);
  library.def("streams_agree() -> bool", streams_agree);
  library.def("secondary_stream_is_waited_for() -> bool", secondary_stream_is_waited_for);
  library.def("format_and_type(Tensor self) -> int", format_and_type);
}
