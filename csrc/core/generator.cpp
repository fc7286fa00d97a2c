#include "core/generator.h"

#include <array>
#include <cstring>
#include <mutex>

#include <ATen/Utils.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/ops/empty.h>

#include "core/capture.h"
#include "core/device.h"

namespace torch_npu::core {
namespace {

constexpr size_t kStateBytes = sizeof(uint64_t) + sizeof(int64_t);

struct DefaultGenerators {
  std::array<std::once_flag, kMaxDevices> once;
  std::array<at::Generator, kMaxDevices> generators;
};

DefaultGenerators& defaults() {
  static auto* instance = new DefaultGenerators();
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
  TORCH_CHECK_VALUE(offset % 4 == 0, "the offset of an NPU generator must be a multiple of 4, got ", offset);
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
  state_->offset += (draws + 3) / 4 * 4;
  return {state_->seed, offset};
}

const at::Generator& default_generator(c10::DeviceIndex device) {
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
  refuse_in_capture("random numbers");  // a replay would draw the same ones
  auto* impl = at::get_generator_or_default<GeneratorImpl>(generator, default_generator());
  std::lock_guard<std::mutex> lock(impl->mutex_);
  return impl->advance(draws);
}

}  // namespace torch_npu::core
