// SPDX-License-Identifier: Apache-2.0
#include "neuron/base/process.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "neuron/base/error.h"

namespace neuron {
namespace {

std::atomic<bool> forked{false};
WaitHooks hooks;

}  // namespace

bool in_forked_child() noexcept { return forked.load(std::memory_order_relaxed); }

void watch_for_fork() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] { forked.store(true, std::memory_order_relaxed); });
  });
}

void check_not_forked() {
  if (in_forked_child()) [[unlikely]] {
    throw Error(ErrorCode::kForked,
                "Cannot re-initialize Neuron runtime in forked subprocess. To use neuron with "
                "multiprocessing, you must use the 'spawn' start method");
  }
}

void set_thread_name(const char* name) { pthread_setname_np(pthread_self(), name); }

void set_wait_hooks(WaitHooks h) { hooks = h; }
const WaitHooks& wait_hooks() { return hooks; }

}  // namespace neuron
