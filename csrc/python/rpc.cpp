// torch_npu._C._distributed_rpc: the agents of the RPC backends NPU_TENSORPIPE and NPU_FAULTY_TENSORPIPE.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/stl.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <type_traits>

#define USE_TENSORPIPE  // what torch's headers ask for; init_rpc() is only called where torch has it
#include <torch/csrc/distributed/autograd/context/container.h>
#include <torch/csrc/distributed/autograd/rpc_messages/propagate_gradients_req.h>
#include <torch/csrc/distributed/rpc/request_callback_impl.h>
#include <torch/csrc/distributed/rpc/tensorpipe_agent.h>
#include <torch/csrc/distributed/rpc/testing/faulty_tensorpipe_agent.h>

#include "python/rpc.h"

namespace torch_npu::python {
namespace {

namespace py = pybind11;
namespace rpc = torch::distributed::rpc;
namespace autograd = torch::distributed::autograd;
using rpc::DeviceMap;
using rpc::JitFuture;
using rpc::Message;
using Tensors = std::vector<at::Tensor>;

// Note [Messages with tensors of an NPU]
// TensorPipe moves the memory of CPUs (and of CUDA), so tensors travel as copies on the CPU, and the agent below is not told of
// devices. Behind them comes one more tensor, which says for each the NPU that it belongs to, or -1 for the CPU. A request names
// the receiver's devices, by the sender's map. An answer names those of whoever answers, and the asker, which knows the map that
// the request went by, turns it round.
constexpr int64_t kCpu = -1;

int64_t place_of(at::Device device) { return device.is_cpu() ? kCpu : device.index(); }

at::Device device_at(int64_t place) {
  return place == kCpu ? at::Device(at::kCPU) : at::Device(at::kPrivateUse1, static_cast<at::DeviceIndex>(place));
}

at::Tensor moved(const at::Tensor& tensor, at::Device device) {
  if (tensor.device() == device) return tensor;
  const at::NoGradGuard guard;
  auto copy = tensor.detach().to(device);
  if (tensor.requires_grad()) copy.requires_grad_();
  return copy;
}

// `device_for`: of a tensor's device, the receiver's in the receiver's words.
template <class DeviceFor>
c10::intrusive_ptr<Message> packed(const Message& message, DeviceFor&& device_for) {
  Tensors tensors;
  std::vector<int64_t> places;
  for (const auto& tensor : message.tensors()) {
    places.push_back(place_of(device_for(tensor.device())));
    tensors.push_back(moved(tensor, at::kCPU));
  }
  if (!tensors.empty()) tensors.push_back(at::tensor(places));
  auto payload = message.payload();
  return c10::make_intrusive<Message>(std::move(payload), std::move(tensors), message.type(), message.id());
}

// `device_for`: of the device that the sender named, the one to use here.
template <class DeviceFor>
void unpack(Message& message, DeviceFor&& device_for) {
  auto& tensors = message.tensors();
  if (tensors.empty()) return;
  const auto places = tensors.back();
  tensors.pop_back();
  TORCH_CHECK(places.scalar_type() == at::kLong && places.numel() == static_cast<int64_t>(tensors.size()),
              "a message of another RPC backend came to NPU_TENSORPIPE");
  for (size_t i = 0; i < tensors.size(); ++i)
    tensors[i] = moved(tensors[i], device_for(device_at(places.data_ptr<int64_t>()[i])));
}

// Completes `to` with the message that `from` will have, after `change`, which returns the message to use.
template <class Change>
void pass_on(JitFuture& from, c10::intrusive_ptr<JitFuture> to, Change&& change) {
  from.addCallback([to = std::move(to), change = std::forward<Change>(change)](JitFuture& done) {
    if (done.hasError()) return to->setError(done.exception_ptr());
    try {
      auto [message, storages] = rpc::withStorages(change(done.constValue().toCustomClass<Message>()));
      to->markCompleted(std::move(message), std::move(storages));
    } catch (const std::exception&) {
      to->setError(std::current_exception());
    }
  });
}

c10::intrusive_ptr<JitFuture> new_future(const std::vector<at::Device>& devices) {
  return c10::make_intrusive<JitFuture>(at::AnyClassType::get(), devices);
}

class Callback : public rpc::RequestCallbackImpl {
 public:
  c10::intrusive_ptr<JitFuture> processMessage(Message& request, std::vector<c10::Stream> streams) const override {
    const auto same = [](at::Device device) { return device; };
    unpack(request, same);
    const auto answer = RequestCallbackImpl::processMessage(request, std::move(streams));
    auto sent = new_future({});
    pass_on(*answer, sent, [same](const c10::intrusive_ptr<Message>& message) { return packed(*message, same); });
    return sent;
  }

 protected:
  // Note [Gradients that arrive]
  // Before PyTorch runs the backward of what was sent, it has the stream of its gradients wait for the stream that they came on,
  // and takes both for CUDA's. Here they were copied before the request was told of (`moved` waits), so that there is nothing to
  // wait for; a node that does not know of what device its gradients are has no stream.
  c10::intrusive_ptr<JitFuture> processRpcWithErrors(rpc::RpcCommandBase& command, const rpc::MessageType& type,
                                                     const std::vector<c10::Stream>& streams) const override {
    if (type == rpc::MessageType::BACKWARD_AUTOGRAD_REQ) {
      const auto& metadata = static_cast<autograd::PropagateGradientsReq&>(command).getAutogradMetadata();
      try {
        const auto context = autograd::DistAutogradContainer::getInstance().retrieveContext(metadata.autogradContextId);
        context->retrieveSendFunction(metadata.autogradMessageId)->clear_input_metadata();
      } catch (const std::exception& error) {
        return asFuture(handleError(error, type, -1));
      }
    }
    return RequestCallbackImpl::processRpcWithErrors(command, type, streams);
  }
};

// `Base`: TensorPipeAgent, or one made of it, with its options.
template <class Base, class Options>
class AgentOver : public Base {
 public:
  AgentOver(const c10::intrusive_ptr<c10d::Store>& store, std::string name, rpc::worker_id_t id, std::optional<int> size,
            const Options& options, std::vector<at::Device> devices)
      : Base(store, std::move(name), id, size_for(size), without_devices(options), {}, {}, std::make_unique<Callback>()),
        options_(options) {
    devices_.push_back(std::move(devices));
  }

  c10::intrusive_ptr<JitFuture> send(const rpc::WorkerInfo& to, c10::intrusive_ptr<Message> message, const float timeout,
                                     const DeviceMap& given) override {
    const auto map = given.empty() ? getDeviceMap(to) : given;
    const auto request = packed(*message, [&](at::Device device) {
      const auto found = map.find(device);
      TORCH_CHECK(found != map.end() || device.is_cpu(), "a tensor of ", device, " is sent to worker ", to.name_,
                  ", for which there is no device map of it: see set_device_map of the options, or move it with .cpu()");
      return found == map.end() ? device : found->second;
    });
    auto answer = new_future(getDevices());
    pass_on(*Base::send(to, request, timeout, {}), answer, [map, from = to.name_](const c10::intrusive_ptr<Message>& received) {
      unpack(*received, [&](at::Device device) {
        for (const auto& [ours, theirs] : map) {
          if (theirs == device) return ours;
        }
        TORCH_CHECK(device.is_cpu(), "worker ", from, " answers with a tensor of ", device,
                    ", which no device map leads to: see set_device_map of the options, or have it move it with .cpu()");
        return device;
      });
      return received;
    });
    return answer;
  }

  DeviceMap getDeviceMap(const rpc::WorkerInfo& to) const override {
    const auto found = options_.deviceMaps.find(to.name_);
    return found == options_.deviceMaps.end() ? DeviceMap() : found->second;
  }

  const std::vector<at::Device>& getDevices() const override {
    const std::lock_guard lock(devices_mutex_);
    return devices_.back();
  }

  Options options() const { return options_; }

  void update_group(const rpc::WorkerInfo& worker, const std::vector<at::Device>& devices, bool joins) {
    Base::updateGroupMembership(worker, {}, {}, joins);
    const std::lock_guard lock(devices_mutex_);
    auto all = devices_.back();
    for (const auto device : devices) {
      if (std::find(all.begin(), all.end(), device) == all.end()) all.push_back(device);
    }
    if (all.size() > devices_.back().size()) devices_.push_back(std::move(all));
  }

 private:
  static auto size_for(std::optional<int> size) {
    if constexpr (std::is_same_v<Base, rpc::TensorPipeAgent>)
      return size;
    else
      return size.value();
  }

  static Options without_devices(Options options) {
    options.deviceMaps.clear();
    options.devices.clear();
    return options;
  }

  const Options options_;
  mutable std::mutex devices_mutex_;
  std::deque<std::vector<at::Device>> devices_;  // the last ones hold; who asked before keeps a reference to others
};

// A type of our own, for PyTorch registers its own with Python when torch.distributed.rpc._testing is imported, and only once.
struct FaultyOptions : rpc::FaultyTensorPipeRpcBackendOptions {
  using FaultyTensorPipeRpcBackendOptions::FaultyTensorPipeRpcBackendOptions;
};

template <class Base, class Options>
void add_agent(py::module_& part, const char* name) {
  using Agent = AgentOver<Base, Options>;
  py::class_<Agent, rpc::TensorPipeAgent, std::shared_ptr<Agent>>(part, name)
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, std::string name, rpc::worker_id_t id,
                       std::optional<int> size, const Options& options,
                       const std::unordered_map<std::string, DeviceMap>& /*who asks turns its own maps round*/,
                       std::vector<at::Device> devices) {
             return std::shared_ptr<Agent>(new Agent(store, std::move(name), id, size, options, std::move(devices)),
                                           torch::impl::destroy_without_gil<Agent>);
           }),
           py::arg("store"), py::arg("name"), py::arg("rank"), py::arg("world_size"), py::arg("rpc_backend_options"),
           py::arg("reverse_device_maps"), py::arg("devices"))
      .def("_get_backend_options", &Agent::options)
      .def(
          "_update_group_membership",
          [](Agent& agent, const rpc::WorkerInfo& worker, const std::vector<at::Device>& devices,
             const std::unordered_map<std::string, DeviceMap>&, bool joins) { agent.update_group(worker, devices, joins); },
          py::call_guard<py::gil_scoped_release>());
}

}  // namespace

void init_rpc(py::module_& module) {
  if (module.attr("__dict__").contains("_distributed_rpc")) return;
  py::module_::import("torch._C._distributed_rpc");
  auto part = module.def_submodule("_distributed_rpc");
  add_agent<rpc::TensorPipeAgent, rpc::TensorPipeRpcBackendOptions>(part, "TensorPipeAgent");
  py::class_<FaultyOptions, rpc::TensorPipeRpcBackendOptions>(part, "FaultyTensorPipeRpcBackendOptions")
      .def(py::init<int, float, std::string, std::vector<std::string>, std::unordered_map<std::string, float>, int>(),
           py::arg("num_worker_threads"), py::arg("rpc_timeout"), py::arg("init_method"), py::arg("messages_to_fail"),
           py::arg("messages_to_delay"), py::arg("num_fail_sends"))
      .def_readonly("messages_to_fail", &FaultyOptions::messagesToFail)
      .def_readonly("messages_to_delay", &FaultyOptions::messagesToDelay)
      .def_readonly("num_fail_sends", &FaultyOptions::numFailSends);
  add_agent<rpc::FaultyTensorPipeAgent, FaultyOptions>(part, "FaultyTensorPipeAgent");
}

}  // namespace torch_npu::python
