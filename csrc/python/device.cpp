// Devices, initialisation and the choice of CANN's libraries.
#include <pybind11/stl.h>
#include <torch/csrc/utils/device_lazy_init.h>

#include "core/device.h"
#include "core/error.h"
#include "core/recovery.h"
#include "python/bindings.h"

namespace torch_npu::python {
namespace {

struct DeviceProperties {
  std::string name;
  uint64_t total_memory = 0;
  int64_t cube_core_num = 0;
  int64_t vector_core_num = 0;
  int64_t l2_cache_size = 0;
  int64_t architecture = 0;  // 2201 is C220
  std::string uuid;          // as 8-4-4-4-12 hexadecimal digits; empty where this CANN does not tell

  int64_t major() const { return architecture / 1000; }
  int64_t minor() const { return architecture / 100 % 10; }
  std::string repr() const {
    return "_NPUDeviceProperties(name='" + name + "', total_memory=" + std::to_string(total_memory >> 20) +
           "MB, cube_core_num=" + std::to_string(cube_core_num) + ", vector_core_num=" + std::to_string(vector_core_num) +
           (uuid.empty() ? "" : ", uuid=" + uuid) + ", L2_cache_size=" + std::to_string(l2_cache_size >> 20) + "MB)";
  }
};

// 0 where this CANN does not know the attribute: older ones lack some.
int64_t attribute(c10::DeviceIndex device, aclrtDevAttr which) {
  int64_t value = 0;
  return acl::aclrtGetDeviceInfo(static_cast<uint32_t>(device), which, &value) == 0 ? value : 0;
}

std::string uuid_of(c10::DeviceIndex device) {
  static const acl::Symbol<decltype(::aclrtDeviceGetUuid)> get(acl::Library::ascendcl, "aclrtDeviceGetUuid");
  aclrtUuid uuid{};
  if (!get.available() || get(device, &uuid) != 0) return "";
  std::string text;
  for (size_t i = 0; i < sizeof uuid.bytes; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

DeviceProperties device_properties(c10::DeviceIndex device) {
  core::check_device(device);
  const core::DeviceGuard guard(device);
  core::ensure_bound();
  DeviceProperties properties;
  properties.name = core::soc_name();
  size_t free = 0, total = 0;
  NPU_CHECK(acl::aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
  properties.total_memory = total;
  properties.cube_core_num = attribute(device, ACL_DEV_ATTR_CUBE_CORE_NUM);
  properties.vector_core_num = attribute(device, ACL_DEV_ATTR_VECTOR_CORE_NUM);
  properties.l2_cache_size = attribute(device, ACL_DEV_ATTR_L2_CACHE_SIZE);
  properties.architecture = attribute(device, ACL_DEV_ATTR_NPU_ARCH);
  properties.uuid = uuid_of(device);
  return properties;
}

bool can_access_peer(c10::DeviceIndex device, c10::DeviceIndex peer) {
  core::ensure_bound();
  int32_t can = 0;
  NPU_CHECK(acl::aclrtDeviceCanAccessPeer(&can, device, peer));
  return can != 0;
}

// What the driver counts it as, whatever ASCEND_RT_VISIBLE_DEVICES hides.
int64_t physical_device(c10::DeviceIndex device) {
  core::check_device(device);
  int64_t physical = 0;
  NPU_CHECK(acl::aclrtGetDeviceInfo(static_cast<uint32_t>(device), ACL_DEV_ATTR_PHY_CHIP_ID, &physical));
  return physical;
}

// Percent by unit; -1 for a figure this CANN does not give.
py::dict utilization(c10::DeviceIndex device) {
  core::check_device(device);
  core::ensure_bound();
  aclrtUtilizationInfo info{-1, -1, -1, -1, nullptr};
  if (acl::aclrtGetDeviceUtilizationRate.available() && acl::aclrtGetDeviceUtilizationRate(device, &info) != 0) {
    info = {-1, -1, -1, -1, nullptr};
  }
  py::dict rates;
  rates["cube"] = info.cubeUtilization;
  rates["vector"] = info.vectorUtilization;
  rates["aicpu"] = info.aicpuUtilization;
  rates["memory"] = info.memoryUtilization;
  return rates;
}

std::string cann_version() {
  aclCANNPackageVersion version{};
  NPU_CHECK(acl::aclsysGetCANNVersion(ACL_PKG_NAME_CANN, &version));
  return version.version;
}

py::dict opened_libraries() {
  constexpr std::pair<acl::Library, const char*> kNames[] = {
      {acl::Library::ascendcl, "libascendcl"},
      {acl::Library::opapi, "libopapi"},
      {acl::Library::hccl, "libhccl"},
      {acl::Library::op_compiler, "libacl_op_compiler"},
  };
  py::dict opened;
  for (const auto& [library, name] : kNames) {
    const auto path = acl::opened_path(library);
    if (!path.empty()) opened[name] = py::reinterpret_steal<py::object>(PyUnicode_DecodeFSDefault(path.c_str()));
  }
  return opened;
}

// Initialises CANN, and lets PyTorch skip its own check from now on (and set it again in a forked child).
void init() {
  core::initialize();
  torch::utils::register_fork_handler_for_device_init(c10::DeviceType::PrivateUse1);
  torch::utils::set_requires_device_init(c10::DeviceType::PrivateUse1, false);
}

// Python's way to initialize, for an operator that C++ or torch.ops calls before Python has: with the choice of CANN's libraries,
// and the seeds that wait.
void initialize_through_python() {
  if (!Py_IsInitialized()) return core::initialize();
  py::gil_scoped_acquire gil;
  py::module_::import("torch_npu.npu._state").attr("lazy_init")();  // what it raises reaches the caller in Python as it is
}

}  // namespace

void init_device(py::module_& module) {
  module.attr("_device_type") = static_cast<int64_t>(c10::DeviceType::PrivateUse1);
  module.def("_set_library_path", &acl::set_library_path);
  module.def("_opened_libraries", &opened_libraries);
  module.def("_require_symbol", [](const char* name) { acl::require_symbol(acl::Library::ascendcl, name); });
  module.def("_cann_version", &cann_version);
  module.def("_soc_name", &core::soc_name);
  module.def("_status_text", &core::status_text);

  core::set_initializer(&initialize_through_python);
  module.def("_init", &init, Unlocked());
  module.def("_end_init", &core::end_initialization);
  module.def("_abort_device", &core::abort_device, Unlocked());
  module.def("_forget_failures", &core::forget_failures, Unlocked());
  module.def("_damaged_memory", &core::damaged_memory, Unlocked());
  module.def("_finish_work", &core::finish_work, Unlocked());
  module.def("_in_bad_fork", &core::in_bad_fork);
  module.def("_device_count", &core::device_count_or_throw);
  module.def("_check_device", &core::check_device);
  module.def("_current_device", &core::current_device);
  module.def("_exchange_device", &core::exchange_device);
  module.def("_set_device", &core::set_device);
  module.def(
      "_synchronize_device",
      [](c10::DeviceIndex device) {
        core::check_device(device);
        core::synchronize_device(device);
      },
      Unlocked());
  module.def("_can_access_peer", &can_access_peer);
  module.def("_utilization", &utilization);
  module.def("_physical_device", &physical_device);

  py::class_<DeviceProperties> properties(module, "_NPUDeviceProperties");
  properties.def_readonly("name", &DeviceProperties::name)
      .def_readonly("total_memory", &DeviceProperties::total_memory)
      .def_readonly("multi_processor_count", &DeviceProperties::vector_core_num)
      .def_readonly("cube_core_num", &DeviceProperties::cube_core_num)
      .def_readonly("vector_core_num", &DeviceProperties::vector_core_num)
      .def_readonly("L2_cache_size", &DeviceProperties::l2_cache_size)
      .def_readonly("uuid", &DeviceProperties::uuid)
      .def_property_readonly("major", &DeviceProperties::major)
      .def_property_readonly("minor", &DeviceProperties::minor)
      .def("__repr__", &DeviceProperties::repr);
  // What the properties of torch.cuda's devices have and an NPU has not.
  for (const char* name : {"gcnArchName", "is_integrated", "is_multi_gpu_board", "max_threads_per_multi_processor",
                           "regs_per_multiprocessor", "warp_size"}) {
    properties.def_property_readonly(name, [](const DeviceProperties&) { return py::none(); });
  }
  module.def("_device_properties", &device_properties);
}

}  // namespace torch_npu::python
