#include "core/generator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>

#include <ATen/EmptyTensor.h>
#include <ATen/Utils.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/ops/empty.h>

#include "core/capture.h"
#include "core/device.h"

namespace torch_npu::core {
namespace {

// Philox makes four numbers at a time.
uint64_t whole_draws(uint64_t draws) { return (draws + 3) / 4 * 4; }

// What an operator that draws at all takes of the offset, see Note [Random numbers of a program].
uint64_t draws_of_operator(uint64_t draws) { return draws == 0 ? 0 : 12; }

constexpr size_t kStateBytes = sizeof(uint64_t) + sizeof(int64_t);

struct DefaultGenerators {
  std::array<std::once_flag, kMaxDevices> once;
  std::array<at::Generator, kMaxDevices> generators;
};

DefaultGenerators& defaults() {
  static auto* instance = new DefaultGenerators();
  return *instance;
}

struct Captures {
  std::mutex mutex;
  std::map<aclmdlRI, GraphDraws*> graphs;
};

Captures& captures() {
  static auto* instance = new Captures();
  return *instance;
}

c10::DeviceIndex resolve(c10::DeviceIndex device) {
  if (device < 0) device = current_device();
  TORCH_CHECK(device < kMaxDevices, "generator of npu:", static_cast<int>(device), ", which does not exist");
  return device;
}

}  // namespace

GeneratorImpl::GeneratorImpl(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void GeneratorImpl::set_current_seed(uint64_t seed) { *state_ = {seed, 0}; }

void GeneratorImpl::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % 4 == 0, "the offset of an NPU generator must be a multiple of 4, got ", offset);
  state_->offset = offset;
}

uint64_t GeneratorImpl::seed() {
  const auto random = c10::detail::getNonDeterministicRandom(true);
  set_current_seed(random);
  return random;
}

void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == kStateBytes, "RNG state must be ", kStateBytes, " bytes (seed and offset), got ", state.numel());
  const auto* bytes = state.data_ptr_impl<uint8_t>();
  std::memcpy(&state_->seed, bytes, sizeof(state_->seed));
  std::memcpy(&state_->offset, bytes + sizeof(state_->seed), sizeof(state_->offset));
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  auto state = at::empty({static_cast<int64_t>(kStateBytes)}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  auto* bytes = state.mutable_data_ptr<uint8_t>();
  std::memcpy(bytes, &state_->seed, sizeof(state_->seed));
  std::memcpy(bytes + sizeof(state_->seed), &state_->offset, sizeof(state_->offset));
  return state.getIntrusivePtr();
}

void GeneratorImpl::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) {
  auto* other = dynamic_cast<GeneratorImpl*>(state.get());
  TORCH_CHECK(other, "the generator state given is not of an NPU generator");
  state_ = other->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> GeneratorImpl::graphsafe_get_state() const {
  auto shared = c10::make_intrusive<GeneratorImpl>(device().index());
  shared->state_ = state_;
  return shared;
}

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(device().index());
  *copy->state_ = *state_;
  return copy;
}

std::pair<uint64_t, uint64_t> GeneratorImpl::advance(uint64_t draws) {
  const auto offset = state_->offset;
  state_->offset += whole_draws(draws);
  return {state_->seed, offset};
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  ensure_initialized();  // seeds wait for it
  device = resolve(device);
  auto& all = defaults();
  std::call_once(all.once[device], [&] { all.generators[device] = make_generator(device); });
  return all.generators[device];
}

at::Generator make_generator(c10::DeviceIndex device) {
  if (device >= 0) check_device(device);
  return at::make_generator<GeneratorImpl>(resolve(device));
}

std::pair<uint64_t, uint64_t> philox_state(const std::optional<at::Generator>& generator, uint64_t draws) {
  refuse_in_capture("random numbers of this operator");  // a replay would draw the same ones
  auto* impl = at::get_generator_or_default<GeneratorImpl>(generator, default_generator());
  std::lock_guard<std::mutex> lock(impl->mutex_);
  return impl->advance(draws_of_operator(draws));
}

Draws draw(const std::optional<at::Generator>& generator, uint64_t draws) {
  auto* impl = at::get_generator_or_default<GeneratorImpl>(generator, default_generator());
  if (any_capture()) {
    if (const aclmdlRI graph = captured_into(current_stream())) {
      std::lock_guard<std::mutex> lock(captures().mutex);
      const auto found = captures().graphs.find(graph);
      TORCH_CHECK(found != captures().graphs.end(), "random numbers can be captured by torch.npu.NPUGraph alone");
      return found->second->take(generator ? *generator : default_generator(), draws);
    }
  }
  std::lock_guard<std::mutex> lock(impl->mutex_);
  const auto [seed, offset] = impl->advance(draws_of_operator(draws));
  return {seed, offset, {}, {}};
}

GraphDraws::~GraphDraws() { end_capture(); }

void GraphDraws::begin_capture(aclmdlRI graph) {
  std::lock_guard<std::mutex> lock(captures().mutex);
  graph_ = graph;
  captures().graphs[graph] = this;
}

void GraphDraws::end_capture() noexcept {
  if (!graph_) return;
  std::lock_guard<std::mutex> lock(captures().mutex);
  captures().graphs.erase(std::exchange(graph_, nullptr));
}

// The caller holds the lock of the captures.
Draws GraphDraws::take(const at::Generator& generator, uint64_t draws) {
  auto found =
      std::find_if(sources_.begin(), sources_.end(), [&](const Source& source) { return source.generator == generator; });
  if (found == sources_.end()) {
    // Without at::empty, which fills what it makes where torch.utils.deterministic asks for it: the fill would be captured, too.
    const auto number = [] {
      return at::Tensor(at::detail::empty_generic({1}, c10::GetAllocator(c10::DeviceType::PrivateUse1),
                                                  c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), at::kLong, std::nullopt));
    };
    sources_.push_back({generator, number(), number(), 0});
    found = sources_.end() - 1;
  }
  const auto offset = found->drawn;
  found->drawn += draws_of_operator(draws);
  return {0, offset, found->seed, found->offset};
}

void GraphDraws::before_replay() {
  for (Source& source : sources_) {
    std::pair<uint64_t, uint64_t> state;
    {
      std::lock_guard<std::mutex> lock(source.generator.mutex());
      state = at::check_generator<GeneratorImpl>(source.generator)->advance(source.drawn);
    }
    source.seed.fill_(static_cast<int64_t>(state.first));
    source.offset.fill_(static_cast<int64_t>(state.second));
  }
}

}  // namespace torch_npu::core
