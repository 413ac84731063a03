// SPDX-License-Identifier: Apache-2.0
//
// KernelCache: every kernel of the process by its loop nest, and the way from nest to machine code:
// process, shipped pack, disk, background compile, and only at a total miss a compile that the
// caller waits for.
//
// A Kernel is in one of these states and moves only downwards:
//   kAbsent     known, no code yet, nobody is working on it
//   kQueued     waits for a background worker
//   kCompiling  one thread compiles it; a key is never compiled twice at once
//   kReady      object() is set, for good
//   kFailed     the compile failed; error() says why, and no one tries again in this process
// object() is one atomic load, so a fused kernel swaps in between two launches without a lock.
//
// Workers run at idle priority (SCHED_IDLE) and start with the first request; `hurry` lifts them to
// normal priority for what is pending, since spinning pool threads leave nothing to an idle one.
// Failures and every
// compile in the foreground are counted (trace/counters.h, names "Kernel.*").
//
// Thread-safe. Kernels live as long as the cache; `instance()` is never destroyed.
//
//   Kernel& k = KernelCache::instance().find(nest);       // shipped or stored: ready at once
//   if (k.object() == nullptr) KernelCache::instance().request(k);   // run single-op kernels so
//   long launch(KernelCache::instance().require(k), k.analysis(), operands);
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "neuron/host/kernel_object.h"
#include "neuron/host/loop_nest_analysis.h"
#include "neuron/store/artifact_pack.h"
#include "neuron/store/disk_store.h"

namespace neuron {

// What a stored object is made from: the nest's canonical text, the compiler and the target.
ArtifactKey kernel_key(std::string_view text, std::string_view build_id, std::string_view features);

class Kernel {
 public:
  enum class State : uint8_t { kAbsent, kQueued, kCompiling, kReady, kFailed };

  const LoopNest& nest() const { return nest_; }
  const NestAnalysis& analysis() const { return analysis_; }
  const ArtifactKey& key() const { return key_; }
  const KernelObject* object() const { return object_.load(std::memory_order_acquire); }

 private:
  friend class KernelCache;
  Kernel(LoopNest nest, ArtifactKey key)
      : nest_(std::move(nest)), analysis_(nest_), key_(std::move(key)) {}

  const LoopNest nest_;
  const NestAnalysis analysis_;
  const ArtifactKey key_;
  std::atomic<const KernelObject*> object_{nullptr};
  std::unique_ptr<const KernelObject> owned_;  // written once, before object_
  State state_ = State::kAbsent;               // guarded by KernelCache::mutex_
  std::string error_;                          // guarded by KernelCache::mutex_
};

class KernelCache {
 public:
  // Object bytes of a nest's canonical text; throws Error. May run on several threads at once.
  using Compile = std::function<std::string(std::string_view text, const std::string& features)>;

  struct Options {
    std::string build_id;  // of what `compile` makes
    std::string features;  // target features, part of every key
    int workers = 1;
    Compile compile;
    std::unique_ptr<ArtifactPack> shipped;  // may be null
    std::unique_ptr<DiskStore> disk;        // may be null
  };

  explicit KernelCache(Options options);
  ~KernelCache();  // drops the queue and joins the workers; no other call may be active
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  // By the configuration: KernelCompiler, this processor, its pack in `kernels/` beside the library
  // (host/kernel_pack.h), the user's cache directory.
  static KernelCache& instance();

  // The kernel of a verified nest. Looks in the shipped pack and on disk the first time, which
  // takes some 0.1 ms; never compiles.
  Kernel& find(const LoopNest& nest);

  // Compiles in the background, unless that was asked for or done before.
  void request(Kernel& kernel);

  // What is pending has waited long enough: no idle priority until it is done.
  void hurry();

  // The code, compiled now by this thread if nobody has begun; counted as a foreground compile.
  // Throws kExecution if the compile failed, now or earlier.
  const KernelObject& require(Kernel& kernel);

  Kernel::State state(const Kernel& kernel) const;
  std::string error(const Kernel& kernel) const;  // of a failed kernel, else empty
  size_t pending() const;                         // queued or compiling in the background
  void wait_idle();                               // until nothing is pending

  const DiskStore* disk() const { return options_.disk.get(); }

  // Joins the workers of instance(); later requests stay queued until `require` takes them.
  static void shutdown();

 private:
  void worker();
  void stop();
  bool try_stored(Kernel& kernel);
  void compile(Kernel& kernel);  // state_ is kCompiling; mutex_ not held

  const Options options_;
  mutable std::mutex mutex_;
  std::condition_variable work_;  // workers: the queue has grown or the end is near
  std::condition_variable done_;  // a compile has ended
  std::unordered_map<std::string, std::unique_ptr<Kernel>> kernels_;  // guarded, by canonical text
  std::deque<Kernel*> queue_;                                         // guarded
  std::vector<std::thread> workers_;                                  // guarded
  size_t active_ = 0;      // guarded: background compiles that run
  bool hurried_ = false;   // guarded: until nothing is pending
  bool stopping_ = false;  // guarded
};

}  // namespace neuron
