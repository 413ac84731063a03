// SPDX-License-Identifier: Apache-2.0
//
// The process that the backend lives in: detection of a forked child, thread names, and the hooks by
// which a layer above takes part in long waits.
#pragma once

namespace neuron {

// True in a child made by fork() after the backend was used in its parent: device threads do not
// exist there, so every entry point raises and every deleter does nothing.
bool in_forked_child() noexcept;
// Arms the detection; idempotent, called before the first device thread starts.
void watch_for_fork();
// Throws kForked in such a child.
void check_not_forked();

void set_thread_name(const char* name);  // at most 15 characters

// Called around waits that may take long, on the waiting thread. `enter` releases what must not be
// held while waiting (the GIL) and returns a token for `leave`; `interrupted` is asked about 20 times
// a second and says whether the wait should end with kInterrupted (a signal arrived).
struct WaitHooks {
  void* (*enter)() = nullptr;
  void (*leave)(void*) = nullptr;
  bool (*interrupted)() = nullptr;
};
void set_wait_hooks(WaitHooks hooks);
const WaitHooks& wait_hooks();

}  // namespace neuron
