// Dumps of what CANN's operators read and write, which CANN makes.
#include <string>

#include "acl/runtime.h"
#include "core/error.h"
#include "python/bindings.h"

namespace torch_npu::python {
namespace {

const acl::Symbol<decltype(::aclmdlInitDump)> init_dump(acl::Library::ascendcl, "aclmdlInitDump");
const acl::Symbol<decltype(::aclmdlSetDump)> set_dump(acl::Library::ascendcl, "aclmdlSetDump");
const acl::Symbol<decltype(::aclmdlFinalizeDump)> finalize_dump(acl::Library::ascendcl, "aclmdlFinalizeDump");

}  // namespace

void init_dumps(py::module_& module) {
  module.def("_init_dump", [] { NPU_CHECK(init_dump()); });
  module.def("_set_dump", [](const std::string& path) { NPU_CHECK(set_dump(path.c_str())); });
  module.def("_finalize_dump", [] { NPU_CHECK(finalize_dump()); });
}

}  // namespace torch_npu::python
