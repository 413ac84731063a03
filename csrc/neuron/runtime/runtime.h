// SPDX-License-Identifier: Apache-2.0
//
// Runtime: the process's devices. `start` names the target, once; devices are built lazily. Leaks on
// purpose: guards and deleters may run while the process ends. `shutdown` lets queued work finish and
// joins the device threads.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "neuron/runtime/device.h"
#include "neuron/target/target.h"

namespace neuron {

class Runtime {
 public:
  static void start(std::unique_ptr<Target> target);  // throws if called twice
  static Runtime& instance();                         // after `start`
  // True once a device has been created; never creates one.
  static bool initialized() noexcept;

  explicit Runtime(std::unique_ptr<Target> target);  // for tests; the process uses `start`

  Target& target() { return *target_; }
  int device_count() const { return device_count_; }
  // Throws kInvalidArgument for an index out of range, kForked in a forked child.
  Device& device(int index);
  // The devices that exist so far.
  void synchronize();
  // As `synchronize`, but leaves errors for the next wait.
  void drain(SealReason reason) noexcept;
  void shutdown() noexcept;

 private:
  std::unique_ptr<Target> target_;
  const int device_count_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Device>> owned_;     // guarded by mutex_
  std::vector<std::atomic<Device*>> devices_;      // published; nullptr until first use
};

}  // namespace neuron
