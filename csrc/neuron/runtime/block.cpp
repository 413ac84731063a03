// SPDX-License-Identifier: Apache-2.0
#include "neuron/runtime/block.h"

#include <mutex>

namespace neuron {
namespace {

std::mutex& poison_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

}  // namespace

void (*Block::destroy_attachment)(void*) = nullptr;

Block::~Block() {
  if (void* pointer = attachment_.load(std::memory_order_acquire)) destroy_attachment(pointer);
}

std::shared_ptr<const Error> Block::poison() const {
  if (!poisoned()) return nullptr;
  std::lock_guard lock(poison_mutex());
  return poison_;
}

void Block::set_poison(std::shared_ptr<const Error> error) {
  std::lock_guard lock(poison_mutex());
  poison_ = std::move(error);
  poisoned_.store(poison_ != nullptr, std::memory_order_release);
}

void* Block::attach(void* pointer) {
  void* expected = nullptr;
  if (attachment_.compare_exchange_strong(expected, pointer, std::memory_order_acq_rel)) {
    return pointer;
  }
  destroy_attachment(pointer);
  return expected;
}

}  // namespace neuron
