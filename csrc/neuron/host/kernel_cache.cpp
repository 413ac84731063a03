// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/kernel_cache.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>

#include "neuron/base/config.h"
#include "neuron/base/error.h"
#include "neuron/base/process.h"
#include "neuron/host/kernel_compiler.h"
#include "neuron/host/kernel_pack.h"
#include "neuron/trace/counters.h"
#include "neuron/trace/distribution.h"

namespace neuron {
namespace {

void count(const char* name) { counter(name).add(); }

void set_priority(pthread_t thread, int policy) {
  sched_param parameter{};
  // May be refused, for raising above all: then the thread stays as it is.
  pthread_setschedparam(thread, policy, &parameter);
}

std::string cache_directory() {
  const Config& c = config();
  if (!c.cache_dir.empty()) return c.cache_dir;
  if (!c.xdg_cache_home.empty()) return c.xdg_cache_home + "/torchneuron";
  return c.home.empty() ? "" : c.home + "/.cache/torchneuron";
}

KernelCache::Options configured() {
  KernelCache::Options o;
  KernelCompiler& compiler = KernelCompiler::instance();
  o.build_id = compiler.build_id();
  o.features = host_features();
  o.workers = static_cast<int>(std::max<int64_t>(1, config().compile_workers));
  o.compile = [&compiler](std::string_view text, const std::string& features) {
    return compiler.compile(text, features);
  };
  o.shipped = std::make_unique<ArtifactPack>(compiler.library_directory() + "kernels/" +
                                             kernel_pack_name(o.features));
  std::string directory = cache_directory();
  if (!config().cache_disable && !directory.empty()) {
    DiskStore::Options disk;
    disk.directory = directory + "/kernels";
    disk.max_bytes = config().cache_max_mb << 20;
    o.disk = std::make_unique<DiskStore>(disk);
  }
  return o;
}

}  // namespace

ArtifactKey kernel_key(std::string_view text, std::string_view build_id,
                       std::string_view features) {
  return ArtifactKey({"kernel", std::to_string(kKernelAbi), build_id, features, text});
}

KernelCache::KernelCache(Options options) : options_(std::move(options)) {}

KernelCache::~KernelCache() { stop(); }

KernelCache& KernelCache::instance() {
  static KernelCache* cache = new KernelCache(configured());  // leaks on purpose: code stays mapped
  return *cache;
}

void KernelCache::shutdown() {
  if (in_forked_child()) return;  // the workers are the parent's
  instance().stop();
}

void KernelCache::stop() {
  std::vector<std::thread> workers;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    workers.swap(workers_);
    // An idle-priority compile that is under way would keep the caller for long on a busy machine.
    for (std::thread& t : workers) set_priority(t.native_handle(), SCHED_OTHER);
  }
  work_.notify_all();
  for (std::thread& t : workers) t.join();
}

Kernel& KernelCache::find(const LoopNest& nest) {
  std::string text = to_text(nest);
  Kernel* kernel = nullptr;
  {
    std::lock_guard lock(mutex_);
    auto found = kernels_.find(text);
    if (found != kernels_.end()) {
      count("Kernel.Hit.Process");
      return *found->second;
    }
    ArtifactKey key = kernel_key(text, options_.build_id, options_.features);
    auto made = std::unique_ptr<Kernel>(new Kernel(nest, std::move(key)));
    kernel = made.get();
    // Whoever finds it from now on sees a compile under way until the stores have been asked.
    kernel->state_ = Kernel::State::kCompiling;
    kernels_.emplace(std::move(text), std::move(made));
  }
  bool stored = try_stored(*kernel);
  {
    std::lock_guard lock(mutex_);
    kernel->state_ = stored ? Kernel::State::kReady : Kernel::State::kAbsent;
  }
  done_.notify_all();
  return *kernel;
}

bool KernelCache::try_stored(Kernel& kernel) {
  const auto take = [&](auto& store, const char* hit) {
    if (store == nullptr) return false;
    try {
      const std::optional<std::string> elf = store->load(kernel.key());
      if (!elf) return false;
      kernel.owned_ = std::make_unique<KernelObject>(*elf);
      kernel.object_.store(kernel.owned_.get(), std::memory_order_release);
      count(hit);
      return true;
    } catch (const std::exception&) {
      count("Kernel.BadObject");  // sound as a file, but not as code: compiled again
      return false;
    }
  };
  if (take(options_.shipped, "Kernel.Hit.Shipped")) return true;
  if (take(options_.disk, "Kernel.Hit.Disk")) return true;
  count("Kernel.Miss");
  return false;
}

void KernelCache::request(Kernel& kernel) {
  std::lock_guard lock(mutex_);
  if (kernel.state_ != Kernel::State::kAbsent) return;
  kernel.state_ = Kernel::State::kQueued;
  queue_.push_back(&kernel);
  if (!stopping_ && workers_.size() < static_cast<size_t>(options_.workers) &&
      workers_.size() < queue_.size() + active_)
    workers_.emplace_back([this] { worker(); });
  work_.notify_one();
}

void KernelCache::hurry() {
  std::lock_guard lock(mutex_);
  if (hurried_ || (queue_.empty() && active_ == 0)) return;
  hurried_ = true;
  count("Kernel.Hurried");
  for (std::thread& t : workers_) set_priority(t.native_handle(), SCHED_OTHER);
}

const KernelObject& KernelCache::require(Kernel& kernel) {
  if (const KernelObject* object = kernel.object()) return *object;
  std::unique_lock lock(mutex_);
  if (kernel.state_ == Kernel::State::kCompiling) {
    count("Kernel.ForegroundWait");
    for (std::thread& t : workers_) set_priority(t.native_handle(), SCHED_OTHER);
    done_.wait(lock, [&] { return kernel.state_ != Kernel::State::kCompiling; });
  }
  if (kernel.state_ == Kernel::State::kQueued) {
    queue_.erase(std::find(queue_.begin(), queue_.end(), &kernel));
    kernel.state_ = Kernel::State::kAbsent;
  }
  if (kernel.state_ == Kernel::State::kAbsent) {
    kernel.state_ = Kernel::State::kCompiling;
    lock.unlock();
    count("Kernel.Compile.Foreground");
    compile(kernel);
    lock.lock();
  }
  if (kernel.state_ == Kernel::State::kFailed) throw Error(ErrorCode::kExecution, kernel.error_);
  return *kernel.object();
}

void KernelCache::compile(Kernel& kernel) {
  std::string error;
  const auto started = std::chrono::steady_clock::now();
  try {
    std::string elf = options_.compile(to_text(kernel.nest()), options_.features);
    distribution(kNeffSize).add(static_cast<double>(elf.size()));
    kernel.owned_ = std::make_unique<KernelObject>(elf);
    if (options_.disk != nullptr && !options_.disk->save(kernel.key(), elf))
      count("Kernel.SaveFailed");
  } catch (const std::exception& e) {
    error = e.what();
    if (error.empty()) error = "compile failed";
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - started;
  distribution(kCompilationTime).add(elapsed.count());
  if (!error.empty()) count("Kernel.Compile.Failed");
  {
    std::lock_guard lock(mutex_);
    if (error.empty()) {
      kernel.object_.store(kernel.owned_.get(), std::memory_order_release);
      kernel.state_ = Kernel::State::kReady;
    } else {
      kernel.state_ = Kernel::State::kFailed;
      kernel.error_ = std::move(error);
    }
  }
  done_.notify_all();
}

void KernelCache::worker() {
  set_thread_name("neuron-compile");
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    Kernel* kernel = queue_.front();
    queue_.pop_front();
    kernel->state_ = Kernel::State::kCompiling;
    ++active_;
    set_priority(pthread_self(), hurried_ ? SCHED_OTHER : SCHED_IDLE);
    lock.unlock();
    count("Kernel.Compile.Background");
    compile(*kernel);
    lock.lock();
    --active_;
    if (queue_.empty() && active_ == 0) hurried_ = false;
    done_.notify_all();
  }
}

Kernel::State KernelCache::state(const Kernel& kernel) const {
  std::lock_guard lock(mutex_);
  return kernel.state_;
}

std::string KernelCache::error(const Kernel& kernel) const {
  std::lock_guard lock(mutex_);
  return kernel.error_;
}

size_t KernelCache::pending() const {
  std::lock_guard lock(mutex_);
  return queue_.size() + active_;
}

void KernelCache::wait_idle() {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return stopping_ || (queue_.empty() && active_ == 0); });
}

}  // namespace neuron
