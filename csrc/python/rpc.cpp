// torch_npu._C._distributed_rpc: the agent of the RPC backend NPU_TENSORPIPE.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/stl.h>

#define USE_TENSORPIPE  // what torch's headers ask for; init_rpc() is only called where torch has it
#include <torch/csrc/distributed/rpc/request_callback_impl.h>
#include <torch/csrc/distributed/rpc/tensorpipe_agent.h>

#include "python/rpc.h"

namespace torch_npu::python {
namespace {

namespace py = pybind11;
namespace rpc = torch::distributed::rpc;
using rpc::DeviceMap;
using rpc::JitFuture;
using rpc::Message;
using Tensors = std::vector<at::Tensor>;

// Note [Messages with tensors of an NPU]
// TensorPipe moves the memory of CPUs (and of CUDA), so tensors travel as copies on the CPU. Behind them comes one more tensor,
// which says for each the NPU that it belongs to, or -1. A request names the receiver's devices, by the sender's map. An answer
// names those of whoever answers, and the asker, which knows the map that the request went by, turns it round.
constexpr int64_t kCpu = -1;

at::Tensor moved(const at::Tensor& tensor, at::Device device) {
  const at::NoGradGuard guard;
  auto copy = tensor.detach().to(device);
  if (tensor.requires_grad()) copy.requires_grad_();
  return copy;
}

// `index_of`: of a device, in the receiver's words.
template <class IndexOf>
c10::intrusive_ptr<Message> packed(const Message& message, IndexOf&& index_of) {
  Tensors tensors;
  std::vector<int64_t> places;
  for (const auto& tensor : message.tensors()) {
    const bool on_npu = tensor.device().is_privateuseone();
    places.push_back(on_npu ? index_of(tensor.device()) : kCpu);
    tensors.push_back(on_npu ? moved(tensor, at::kCPU) : tensor);
  }
  if (!tensors.empty()) tensors.push_back(at::tensor(places));
  auto payload = message.payload();
  return c10::make_intrusive<Message>(std::move(payload), std::move(tensors), message.type(), message.id());
}

// `device_of`: of an index, here.
template <class DeviceOf>
void unpack(Message& message, DeviceOf&& device_of) {
  auto& tensors = message.tensors();
  if (tensors.empty()) return;
  const auto places = tensors.back();
  tensors.pop_back();
  TORCH_CHECK(places.scalar_type() == at::kLong && places.numel() == static_cast<int64_t>(tensors.size()),
              "a message of another RPC backend came to NPU_TENSORPIPE");
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto place = places.data_ptr<int64_t>()[i];
    if (place != kCpu) tensors[i] = moved(tensors[i], device_of(static_cast<at::DeviceIndex>(place)));
  }
}

at::Device npu(at::DeviceIndex index) { return {at::kPrivateUse1, index}; }

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

class Callback : public rpc::RequestCallback {
 public:
  c10::intrusive_ptr<JitFuture> processMessage(Message& request, std::vector<c10::Stream> streams) const override {
    unpack(request, npu);
    const auto answer = inner_(request, std::move(streams));
    auto sent = new_future({});
    pass_on(*answer, sent, [](const c10::intrusive_ptr<Message>& message) {
      return packed(*message, [](at::Device device) { return device.index(); });
    });
    return sent;
  }

 private:
  rpc::RequestCallbackImpl inner_;
};

class Agent : public rpc::TensorPipeAgent {
 public:
  Agent(const c10::intrusive_ptr<c10d::Store>& store, std::string name, rpc::worker_id_t id, std::optional<int> size,
        rpc::TensorPipeRpcBackendOptions options, std::unordered_map<std::string, DeviceMap> reverse_maps,
        std::vector<at::Device> devices)
      : TensorPipeAgent(store, std::move(name), id, size, std::move(options), std::move(reverse_maps), {},
                        std::make_unique<Callback>()),
        devices_(std::move(devices)) {}

  c10::intrusive_ptr<JitFuture> send(const rpc::WorkerInfo& to, c10::intrusive_ptr<Message> message, const float timeout,
                                     const DeviceMap& given) override {
    const auto map = given.empty() ? getDeviceMap(to) : given;
    const auto request = packed(*message, [&](at::Device device) {
      const auto found = map.find(device);
      TORCH_CHECK(found != map.end(), "a tensor of ", device, " is sent to worker ", to.name_,
                  ", for which there is no device map of it: see set_device_map of the options, or move it with .cpu()");
      return found->second.index();
    });
    auto answer = new_future(getDevices());
    pass_on(*TensorPipeAgent::send(to, request, timeout, {}), answer,
            [map, from = to.name_](const c10::intrusive_ptr<Message>& received) {
              unpack(*received, [&](at::DeviceIndex index) {
                for (const auto& [ours, theirs] : map) {
                  if (theirs == npu(index)) return ours;
                }
                TORCH_CHECK(false, "worker ", from, " answers with a tensor of ", npu(index),
                            ", which no device map leads to: see set_device_map of the options, or have it move it with .cpu()");
              });
              return received;
            });
    return answer;
  }

  const std::vector<at::Device>& getDevices() const override { return devices_; }

 private:
  const std::vector<at::Device> devices_;
};

}  // namespace

void init_rpc(py::module_& module) {
  if (module.attr("__dict__").contains("_distributed_rpc")) return;
  py::module_::import("torch._C._distributed_rpc");
  auto part = module.def_submodule("_distributed_rpc");
  py::class_<Agent, rpc::TensorPipeAgent, std::shared_ptr<Agent>>(part, "TensorPipeAgent")
      .def(py::init([](const c10::intrusive_ptr<c10d::Store>& store, std::string name, rpc::worker_id_t id,
                       std::optional<int> size, rpc::TensorPipeRpcBackendOptions options,
                       std::unordered_map<std::string, DeviceMap> reverse_maps, std::vector<at::Device> devices) {
             return std::shared_ptr<Agent>(
                 new Agent(store, std::move(name), id, size, std::move(options), std::move(reverse_maps), std::move(devices)),
                 torch::impl::destroy_without_gil<Agent>);
           }),
           py::arg("store"), py::arg("name"), py::arg("rank"), py::arg("world_size"), py::arg("rpc_backend_options"),
           py::arg("reverse_device_maps"), py::arg("devices"));
}

}  // namespace torch_npu::python
