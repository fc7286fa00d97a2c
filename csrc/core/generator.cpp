#include "core/generator.h"

#include <array>
#include <cstring>
#include <mutex>

#include <ATen/Utils.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/ops/empty.h>

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
    : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, device),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void GeneratorImpl::set_current_seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

void GeneratorImpl::set_offset(uint64_t offset) { offset_ = offset; }

uint64_t GeneratorImpl::seed() {
  const auto random = c10::detail::getNonDeterministicRandom(true);
  set_current_seed(random);
  return random;
}

void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == kStateBytes, "RNG state must be ", kStateBytes, " bytes (seed and offset), got ", state.numel());
  const auto* bytes = state.data_ptr_impl<uint8_t>();
  std::memcpy(&seed_, bytes, sizeof(seed_));
  std::memcpy(&offset_, bytes + sizeof(seed_), sizeof(offset_));
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  auto state = at::empty({static_cast<int64_t>(kStateBytes)}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  auto* bytes = state.mutable_data_ptr<uint8_t>();
  std::memcpy(bytes, &seed_, sizeof(seed_));
  std::memcpy(bytes + sizeof(seed_), &offset_, sizeof(offset_));
  return state.getIntrusivePtr();
}

void GeneratorImpl::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) {
  auto* other = dynamic_cast<GeneratorImpl*>(state.get());
  TORCH_CHECK(other, "the generator state given is not of an NPU generator");
  seed_ = other->seed_;
  offset_ = other->offset_;
}

c10::intrusive_ptr<c10::GeneratorImpl> GeneratorImpl::graphsafe_get_state() const {
  return c10::intrusive_ptr<c10::GeneratorImpl>::reclaim(clone_impl());
}

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(device().index());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

std::pair<uint64_t, uint64_t> GeneratorImpl::advance(uint64_t draws) {
  const auto offset = offset_;
  offset_ += (draws + 3) / 4 * 4;  // philox makes four numbers at a time
  return {seed_, offset};
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  device = resolve(device);
  auto& all = defaults();
  std::call_once(all.once[device], [&] { all.generators[device] = make_generator(device); });
  return all.generators[device];
}

at::Generator make_generator(c10::DeviceIndex device) { return at::make_generator<GeneratorImpl>(resolve(device)); }

std::pair<uint64_t, uint64_t> philox_state(const std::optional<at::Generator>& generator, uint64_t draws) {
  auto* impl = at::get_generator_or_default<GeneratorImpl>(generator, default_generator());
  std::lock_guard<std::mutex> lock(impl->mutex_);
  return impl->advance(draws);
}

}  // namespace torch_npu::core
