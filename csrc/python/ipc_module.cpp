// Lending device memory to other processes, for pickling through multiprocessing.
#include <torch/csrc/DynamicTypes.h>

#include "python/bindings.h"
#include "python/ipc.h"

namespace torch_npu::python {
namespace {

py::tuple lend_storage(const py::handle& storage) {
  const auto native = torch::createStorage(storage.ptr());
  MemoryHandle handle;
  {
    py::gil_scoped_release unlocked;
    handle = lend(native);
  }
  return py::make_tuple(handle.counter.process, handle.counter.file, handle.counter.token, handle.counter.slot, handle.device,
                        py::bytes(handle.key), handle.offset, handle.bytes);
}

py::object borrow_storage(const py::tuple& fields) {
  TORCH_CHECK_VALUE(fields.size() == 8, "not a handle of npu memory");
  const MemoryHandle handle{
      {fields[0].cast<int64_t>(), fields[1].cast<int64_t>(), fields[2].cast<uint64_t>(), fields[3].cast<int64_t>()},
      fields[4].cast<int64_t>(),
      fields[5].cast<std::string>(),
      fields[6].cast<int64_t>(),
      fields[7].cast<int64_t>()};
  c10::Storage native;
  {
    py::gil_scoped_release unlocked;
    native = borrow(handle);
  }
  return py::reinterpret_steal<py::object>(torch::createPyObject(native));
}

}  // namespace

void init_ipc(py::module_& module) {
  module.def("_ipc_lend", &lend_storage);
  module.def("_ipc_borrow", &borrow_storage);
  module.def("_ipc_collect", &collect_lent);
}

}  // namespace torch_npu::python
