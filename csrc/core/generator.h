// The NPU's random generator: a seed and an offset, 16 bytes of state (uint64 seed, int64 offset) as
// DTensor expects of a philox generator.
//
// Note [Random numbers of a program]
// An operator that draws takes the state's (seed, offset) and advances the offset by 12, however many numbers it makes: elements
// are told apart by CANN, by another part of the counter. It is what the published torch_npu advances by, so a program draws the
// same numbers from the same seed under both, operator after operator.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/GeneratorImpl.h>

#include "acl/acl.h"

namespace torch_npu::core {

class C10_EXPORT GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(c10::DeviceIndex device);

  void set_current_seed(uint64_t seed) override;
  // A multiple of 4: philox makes four numbers at a time.
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return state_->offset; }
  uint64_t current_seed() const override { return state_->seed; }
  uint64_t seed() override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  // (seed, offset) for an operator that makes `draws` numbers; the caller holds mutex_.
  std::pair<uint64_t, uint64_t> advance(uint64_t draws);
  // The same by the name that CUDA's generator has it under; extensions call it.
  std::pair<uint64_t, uint64_t> philox_engine_inputs(uint64_t draws) { return advance(draws); }

 private:
  struct State {
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
  };

  GeneratorImpl* clone_impl() const override;

  std::shared_ptr<State> state_ = std::make_shared<State>();  // shared by what graphsafe_get_state gives
};

// The generator of a device (-1: current). Made at first use, with the default seed or the one the
// last manual_seed_all gave.
C10_EXPORT const at::Generator& default_generator(c10::DeviceIndex device = -1);
C10_EXPORT at::Generator make_generator(c10::DeviceIndex device = -1);

// Note [Random numbers of a graph]
// A replay must not draw what the capture would have drawn. So a captured operator takes seed and offset from two numbers on the
// device, which each replay sets from the generator before it runs the graph, and adds its own place among the graph's draws;
// the generator then goes on by all that the graph draws. A program draws the same numbers from graphs as without them, where
// its operators are the same.

// What an operator draws with.
struct Draws {
  uint64_t seed = 0, offset = 0;
  at::Tensor seed_tensor, offset_tensor;  // in a capture, int64 of one element: `offset` counts from there, `seed` is nothing
  bool captured() const { return seed_tensor.defined(); }
  int64_t signed_seed() const { return static_cast<int64_t>(seed); }
  int64_t signed_offset() const { return static_cast<int64_t>(offset); }
};

// Of `generator`, or of the current device's default one; for an operator that can be captured into a graph.
C10_EXPORT Draws draw(const std::optional<at::Generator>& generator, uint64_t draws);
// The same where CANN has no form of the operator that a graph could repeat with other numbers: an error in a capture.
C10_EXPORT std::pair<uint64_t, uint64_t> philox_state(const std::optional<at::Generator>& generator, uint64_t draws);

// What a graph draws, generator by generator.
class C10_EXPORT GraphDraws {
 public:
  GraphDraws() = default;
  ~GraphDraws();
  GraphDraws(const GraphDraws&) = delete;
  GraphDraws& operator=(const GraphDraws&) = delete;

  // Between the two, draw() on a stream that is captured into `graph` comes here.
  void begin_capture(aclmdlRI graph);
  void end_capture() noexcept;
  // Sets the numbers of the next replay, on the current stream.
  void before_replay();
  void clear() { sources_.clear(); }

 private:
  friend Draws draw(const std::optional<at::Generator>& generator, uint64_t draws);
  struct Source {
    at::Generator generator;
    at::Tensor seed, offset;
    uint64_t drawn = 0;
  };
  Draws take(const at::Generator& generator, uint64_t draws);

  aclmdlRI graph_ = nullptr;
  std::vector<Source> sources_;
};

}  // namespace torch_npu::core
