// SPDX-License-Identifier: Apache-2.0
#include "torch/generator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <c10/core/GeneratorImpl.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "torch/current.h"
#include "torch/hooks.h"

namespace neuron::glue {
namespace {

constexpr uint64_t kOffsetUnit = 4;  // Philox yields four numbers at a time
constexpr int64_t kStateBytes = 16;

class NeuronGenerator final : public c10::GeneratorImpl {
 public:
  NeuronGenerator(c10::DeviceIndex device, std::shared_ptr<PhiloxState> state)
      : GeneratorImpl({kNeuron, device}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        state_(std::move(state)) {}

  static c10::DeviceType device_type() { return kNeuron; }

  void set_current_seed(uint64_t seed) override { *state_ = {seed, 0}; }
  uint64_t current_seed() const override { return state_->seed; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return current_seed();
  }

  void set_offset(uint64_t offset) override {
    TORCH_CHECK(offset % kOffsetUnit == 0, "offset must be a multiple of ", kOffsetUnit);
    state_->offset = offset;
  }
  uint64_t get_offset() const override { return state_->offset; }

  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == kStateBytes, "RNG state is wrong size: expected ", kStateBytes,
                " bytes, got ", state.numel());
    PhiloxState next;
    static_assert(sizeof(next) == kStateBytes);
    std::memcpy(&next, state.data(), sizeof(next));
    state_->seed = next.seed;
    set_offset(next.offset);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state = at::detail::empty_cpu({kStateBytes}, c10::kByte);
    std::memcpy(state.mutable_data_ptr(), state_.get(), sizeof(PhiloxState));
    return state.getIntrusivePtr();
  }

  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override {
    auto* source = dynamic_cast<NeuronGenerator*>(other.get());
    TORCH_CHECK(source != nullptr, "Expected a neuron generator");
    state_ = source->state_;
  }
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<NeuronGenerator>(device().index(), state_);
  }

  PhiloxState reserve(uint64_t count) {
    std::lock_guard lock(mutex_);
    const PhiloxState before = *state_;
    state_->offset += (count + kOffsetUnit - 1) / kOffsetUnit * kOffsetUnit;
    return before;
  }

 private:
  NeuronGenerator* clone_impl() const override {
    return new NeuronGenerator(device().index(), std::make_shared<PhiloxState>(*state_));
  }

  std::shared_ptr<PhiloxState> state_;  // shared with graph-safe views of this generator
};

c10::DeviceIndex checked(c10::DeviceIndex device) {
  if (device < 0) return current_device();
  TORCH_CHECK(device < device_count(), "Device index ", static_cast<int>(device),
              " is out of range: neuron has ", static_cast<int>(device_count()),
              " virtual NeuronCores");
  return device;
}

}  // namespace

at::Generator new_generator(c10::DeviceIndex device) {
  return at::make_generator<NeuronGenerator>(
      checked(device), std::make_shared<PhiloxState>(PhiloxState{c10::default_rng_seed_val, 0}));
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  // Leaks on purpose: Python objects refer to them until the process ends.
  static const auto* const generators = [] {
    auto* all = new std::vector<at::Generator>;
    for (c10::DeviceIndex i = 0; i < device_count(); ++i) all->push_back(new_generator(i));
    return all;
  }();
  return (*generators)[static_cast<size_t>(checked(device))];
}

PhiloxState reserve(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
                    uint64_t count) {
  return at::get_generator_or_default<NeuronGenerator>(generator, default_generator(device))
      ->reserve(count);
}

}  // namespace neuron::glue
