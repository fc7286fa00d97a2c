// torch_npu._C._distributed_c10d: the backend "hccl" of torch.distributed.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>

#include "core/options.h"
#include "distributed/arguments.h"
#include "distributed/process_group.h"
#include "distributed/watchdog.h"
#include "python/bindings.h"

namespace torch_npu::python {
namespace {

using distributed::DumpChoice;
using distributed::FlightRecorder;
using distributed::Options;
using distributed::ProcessGroupHCCL;

// hccl_config as users know it: a dict of HCCL's settings.
py::dict get_config(const Options& options) {
  py::dict config;
  for (const auto& [name, value] : options.settings) config[py::str(name)] = py::cast(value);
  return config;
}

distributed::SettingValue setting(const std::string& name, py::handle value) {
  if (py::isinstance<py::str>(value)) return value.cast<std::string>();
  NPU_CHECK_ARGUMENT_TYPE(PyIndex_Check(value.ptr()), "hccl_config: ", name, " must be a number or text, got ",
                          Py_TYPE(value.ptr())->tp_name);
  return py::cast<int64_t>(py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr())));
}

// All of them or, when one is wrong, none.
void set_config(Options& options, const py::dict& config) {
  distributed::CommunicatorSettings settings;
  for (const auto& [key, value] : config) {
    const auto name = key.cast<std::string>();
    const auto given = setting(name, value);
    distributed::check_setting(name, given);
    settings[name] = given;
  }
  options.settings = std::move(settings);
}

void bind_options(py::handle scope, const py::object& base) {
  py::class_<Options, c10::intrusive_ptr<Options>>(scope, "Options", base)
      .def(py::init<bool>(), py::arg("is_high_priority_stream") = false)
      .def_readwrite("is_high_priority_stream", &Options::is_high_priority_stream)
      .def_property("hccl_config", &get_config, &set_config)
      .def_readwrite("op_timeout", &Options::op_timeout)
      .def_readwrite("group_name", &Options::group_name)
      .def_readwrite("group_id", &Options::group_name)  // in the published torch_npu
      .def_readwrite("group_desc", &Options::group_desc)
      .def_readwrite("global_ranks_in_group", &Options::global_ranks_in_group)
      .def("__copy__", [](const Options& self) { return c10::make_intrusive<Options>(self); })
      .def(
          "__deepcopy__", [](const Options& self, const py::dict&) { return c10::make_intrusive<Options>(self); },
          py::arg("memo"));
}

void bind_flight_recorder(py::module_& part) {
  part.def(
      "_dump_hccl_trace",
      [](std::optional<bool> collectives, std::optional<bool> stacks, std::optional<bool> only_active) {
        distributed::sweep_groups();
        const DumpChoice choice{collectives.value_or(true), stacks.value_or(true), only_active.value_or(false)};
        return py::bytes(FlightRecorder::instance().pickle(choice));
      },
      py::arg("includeCollectives") = py::none(), py::arg("includeStackTraces") = py::none(), py::arg("onlyActive") = py::none(),
      "None: with collectives and stacks, and those that have ended.");
  part.def(
      "_dump_hccl_trace_json",
      [](std::optional<bool> collectives, std::optional<bool> only_active) {
        distributed::sweep_groups();
        return py::bytes(
            FlightRecorder::instance().json(DumpChoice{collectives.value_or(true), false, only_active.value_or(false)}));
      },
      py::arg("includeCollectives") = py::none(), py::arg("onlyActive") = py::none());
  part.def(
      "_write_hccl_trace",
      [](int global_rank) {
        distributed::sweep_groups();
        return distributed::dump_flight_recorder(global_rank, core::options().hccl_trace_stacks);
      },
      py::arg("global_rank"), Unlocked(), "To the file that errors are followed by; its path, empty if it could not be written.");
  part.def("_reset_hccl_trace", [] { FlightRecorder::instance().reset(); });
}

void set_both(PyObject* kind, const c10::Error& error) {
  const auto both = py::module_::import("torch_npu._ops.errors").attr("both")(py::handle(kind));
  PyErr_SetString(both.ptr(), error.what_without_backtrace());
}

// Note in distributed/arguments.h.
void translate_argument_errors(std::exception_ptr thrown) {
  try {
    if (thrown) std::rethrow_exception(thrown);
  } catch (const distributed::InvalidArgument& error) {
    set_both(PyExc_ValueError, error);
  } catch (const distributed::InvalidType& error) {
    set_both(PyExc_TypeError, error);
  }
}

void bind_watchdog(py::module_& part) {
  part.def(
      "_keep_status",
      [](std::string folder, std::string name, std::chrono::milliseconds interval, bool master) {
        distributed::keep_status({std::move(folder), std::move(name), interval, master});
      },
      py::arg("folder"), py::arg("name"), py::arg("interval"), py::arg("master"), Unlocked(),
      "Has the watchdog keep a file with the latest collective of each group.");
  part.def("_stop_watchdog", &distributed::stop_watchdog, Unlocked());
}

}  // namespace

void init_distributed(py::module_& module) {
  py::register_exception_translator(&translate_argument_errors);
  const auto c10d = py::module_::import("torch._C._distributed_c10d");
  auto part = module.def_submodule("_distributed_c10d", "torch.distributed on NPUs");

  // A pybind11 of another ABI does not know torch's classes, and deriving from one would crash.
  const auto backend = c10d.attr("Backend");
  TORCH_CHECK(py::detail::get_type_info(reinterpret_cast<PyTypeObject*>(backend.ptr())),
              "this torch was built with another ABI of pybind11 than torch_npu");
  py::class_<ProcessGroupHCCL, c10::intrusive_ptr<ProcessGroupHCCL>> group(part, "ProcessGroupHCCL", backend);
  bind_options(group, backend.attr("Options"));
  group
      .def(py::init(
               [](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const c10::intrusive_ptr<Options>& options) {
                 py::gil_scoped_release no_gil;
                 return c10::make_intrusive<ProcessGroupHCCL>(store, rank, size, options);
               }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"))
      .def(
          "perform_nocolor_split", [](ProcessGroupHCCL&, const at::Device&) {},
          "For ranks outside of a new group. Nothing to do: HCCL's communicators are made by their members alone.")
      .def("_reinit", &ProcessGroupHCCL::reinit, py::arg("rebuild"), Unlocked())
      .def("comm_split_count", &ProcessGroupHCCL::splits)
      .def("get_hccl_comm_name", &ProcessGroupHCCL::communicator_name, py::arg("rankid"), py::arg("init_comm") = true, Unlocked(),
           "Name of the communicator on a device; without init_comm empty if there is none yet.")
      .def(
          "get_hccl_comm",
          [](ProcessGroupHCCL& self, int rank) { return reinterpret_cast<uintptr_t>(self.communicator_handle(rank)); },
          py::arg("rankid"), Unlocked(), "HCCL's handle of that communicator, an address.")
      .def("_set_hccl_comm_name", &ProcessGroupHCCL::name_communicators, py::arg("name"),
           "Of communicators that are made from now on.")
      .def(
          "_stream_id", [](ProcessGroupHCCL& self, c10::DeviceIndex device) { return self.collective_stream(device).id(); },
          py::arg("device"), Unlocked(), "Of collectives on a device.")
      .def(
          "_message_stream_id",
          [](ProcessGroupHCCL& self, c10::DeviceIndex device, int peer) {
            const auto stream = self.message_stream(device, peer);
            return stream ? stream->id() : -1;
          },
          py::arg("device"), py::arg("peer"), Unlocked(), "Of messages to a rank; -1 where none has been sent yet.")
      .def("_begin_batch", &ProcessGroupHCCL::startCoalescing, "Collects what follows, for _end_batch.")
      .def("_end_batch", &ProcessGroupHCCL::endCoalescing, Unlocked(), "Runs what _begin_batch has collected; the work of it.")
      .def("resume_hccl_comm", &ProcessGroupHCCL::resume, py::arg("device"), Unlocked(),
           "Lets the communicators on a device go on after torch.npu.stop_device() and restart_device().")
      .def("_set_default_timeout", &ProcessGroupHCCL::setTimeout, py::arg("timeout"),
           "Of operations that come, and of those in flight.")
      .def("_add_ephemeral_timeout", &ProcessGroupHCCL::extend_timeout, py::arg("timeout"),
           "More time for operations that come, until the first of them has run.")
      .def("set_watchdog_status", &ProcessGroupHCCL::set_watchdog_status, py::arg("status"),
           "1: the watchdog looks after the group, as at first; 2: it does not.")
      .def("clear_workmeta_list", &ProcessGroupHCCL::forget_operations, Unlocked(),
           "Drops what is in flight from the watchdog's sight.")
      .def("_switch_network_cards", &ProcessGroupHCCL::switch_network_cards, Unlocked())
      .def("_enable_collectives_timing", &ProcessGroupHCCL::enableCollectivesTiming)
      .def_property_readonly("options", [](ProcessGroupHCCL& self) {
        return c10::static_intrusive_pointer_cast<Options>(self.getBackendOptions());
      });

  bind_flight_recorder(part);
  bind_watchdog(part);
}

}  // namespace torch_npu::python
