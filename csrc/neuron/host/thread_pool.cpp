// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <string>

#include "neuron/base/config.h"
#include "neuron/base/cpu.h"
#include "neuron/base/process.h"

namespace neuron {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kSpin = std::chrono::microseconds(50);

thread_local bool in_chunk = false;  // a nested run stays on its thread
void (*thread_preparation)() = nullptr;
std::atomic<bool> pool_stopped{false};
std::atomic<IntraOpPool*> the_pool{nullptr};

int configured_threads() {
  const Config& c = config();
  if (c.num_threads > 0) return static_cast<int>(c.num_threads);
  if (c.omp_num_threads > 0) return static_cast<int>(c.omp_num_threads);
  return usable_processors();
}

}  // namespace

struct IntraOpPool::Job {
  FunctionRef<void(int64_t)> chunk;
  const int64_t chunks;
  std::atomic<int64_t> next{0};
  std::atomic<int64_t> unfinished;
  int workers = 0;           // guarded by the pool's mutex: workers that may touch this job
  std::mutex error_mutex;
  std::exception_ptr error;  // guarded by error_mutex

  Job(FunctionRef<void(int64_t)> c, int64_t n) : chunk(c), chunks(n), unfinished(n) {}
};

IntraOpPool::IntraOpPool(int threads, void (*prepare)()) : prepare_(prepare) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { worker(); });
}

IntraOpPool::~IntraOpPool() { join(); }

void IntraOpPool::join() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : workers_) t.join();
  workers_.clear();
}

IntraOpPool& IntraOpPool::instance() {
  static auto* const pool = [] {
    watch_for_fork();
    auto* p = new IntraOpPool(configured_threads(), thread_preparation);
    the_pool.store(p, std::memory_order_release);
    return p;
  }();
  return *pool;
}

void IntraOpPool::shutdown() {
  if (pool_stopped.exchange(true)) return;
  if (IntraOpPool* pool = the_pool.load(std::memory_order_acquire)) pool->join();
}

void IntraOpPool::set_thread_preparation(void (*prepare)()) { thread_preparation = prepare; }

void IntraOpPool::work_on(Job& job) {
  in_chunk = true;
  for (int64_t i; (i = job.next.fetch_add(1, std::memory_order_relaxed)) < job.chunks;) {
    try {
      job.chunk(i);
    } catch (...) {
      std::lock_guard lock(job.error_mutex);
      if (job.error == nullptr) job.error = std::current_exception();
    }
    job.unfinished.fetch_sub(1, std::memory_order_acq_rel);
  }
  in_chunk = false;
}

void IntraOpPool::run(int64_t chunks, FunctionRef<void(int64_t)> chunk) {
  if (chunks <= 0) return;
  if (chunks == 1 || in_chunk || workers_.empty() || in_forked_child()) {
    for (int64_t i = 0; i < chunks; ++i) chunk(i);
    return;
  }
  Job job(chunk, chunks);
  bool wake;
  {
    std::lock_guard lock(mutex_);
    jobs_.push_back(&job);
    open_jobs_.store(static_cast<int>(jobs_.size()), std::memory_order_release);
    wake = sleeping_ > 0;
  }
  if (wake) wake_.notify_all();
  work_on(job);
  {
    std::unique_lock lock(mutex_);
    jobs_.erase(std::find(jobs_.begin(), jobs_.end(), &job));
    open_jobs_.store(static_cast<int>(jobs_.size()), std::memory_order_release);
  }
  // Chunks are short, so the last ones end soon: spin before sleeping.
  const auto give_up = Clock::now() + kSpin;
  while (job.unfinished.load(std::memory_order_acquire) > 0 && Clock::now() < give_up) cpu_pause();
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [&] { return job.workers == 0; });
  lock.unlock();
  if (job.error != nullptr) std::rethrow_exception(job.error);
}

IntraOpPool::Job* IntraOpPool::find_job() {
  for (Job* job : jobs_) {
    if (job->next.load(std::memory_order_relaxed) < job->chunks) return job;
  }
  return nullptr;
}

void IntraOpPool::worker() {
  set_thread_name("neuron-pool");
  if (prepare_ != nullptr) prepare_();
  auto last_work = Clock::now();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (Job* job = find_job()) {
      ++job->workers;
      lock.unlock();
      work_on(*job);
      lock.lock();
      if (--job->workers == 0) finished_.notify_all();
      last_work = Clock::now();
      continue;
    }
    if (Clock::now() - last_work < kSpin) {
      lock.unlock();
      while (open_jobs_.load(std::memory_order_acquire) == 0 && Clock::now() - last_work < kSpin) {
        cpu_pause();
      }
      lock.lock();
      continue;
    }
    ++sleeping_;
    wake_.wait(lock, [&] { return stopping_ || find_job() != nullptr; });
    --sleeping_;
    last_work = Clock::now();
  }
}

}  // namespace neuron
