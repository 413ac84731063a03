// SPDX-License-Identifier: Apache-2.0
//
// IntraOpPool: the one pool of worker threads of the process, shared by all virtual cores and
// streams. Work is cut into chunks by the caller (by sizes, never by the number of threads, so that
// results do not depend on it) and handed out dynamically; the calling thread takes part.
//
// Guarantees. `run` returns after every chunk has run; the first exception of a chunk is rethrown.
// Runs from several threads at once share the workers. A nested `run` from inside a chunk executes
// on the calling thread. Idle workers spin for a bounded time, then sleep.
//
//   IntraOpPool::instance().run(tiles, [&](int64_t tile) { ... });
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "neuron/base/function_ref.h"

namespace neuron {

class IntraOpPool {
 public:
  // `threads` includes the calling thread: `threads - 1` workers. `prepare` runs once on each worker.
  IntraOpPool(int threads, void (*prepare)());
  ~IntraOpPool();  // joins; no run may be active

  static IntraOpPool& instance();  // sized by the configuration; never destroyed, see `shutdown`
  static void shutdown();          // joins the workers of `instance()`; later runs use the caller alone

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Executes chunk(0) ... chunk(chunks - 1), in any order and on any thread of the pool.
  void run(int64_t chunks, FunctionRef<void(int64_t)> chunk);

  // Set before the first `instance()`: called once on each worker before its first chunk.
  static void set_thread_preparation(void (*prepare)());

 private:
  struct Job;

  void worker();
  void join();
  Job* find_job();  // mutex_ held
  static void work_on(Job& job);

  std::mutex mutex_;
  std::condition_variable wake_;      // workers sleep here
  std::condition_variable finished_;  // callers wait here for the last chunk
  std::vector<Job*> jobs_;            // guarded by mutex_
  int sleeping_ = 0;                  // guarded by mutex_
  bool stopping_ = false;             // guarded by mutex_
  std::atomic<int> open_jobs_{0};     // size of jobs_, polled by spinning workers
  void (*const prepare_)();
  std::vector<std::thread> workers_;
};

}  // namespace neuron
