// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/kernel_cache.h"

#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>

#include "core/codegen/kernel_testing.h"
#include "neuron/host/kernel_pack.h"
#include "neuron/trace/counters.h"

namespace neuron::testing {
namespace {

namespace fs = std::filesystem;

LoopNest scale_nest(double factor) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int in = b.operand(kF32, {kUnit}), out = b.operand(kF32, {kUnit});
  b.store(out, b.binary(NestOp::kMul, b.load(in), b.constant(kF32, factor)));
  return b.finish();
}

float run_one(const KernelObject& object, const Kernel& kernel, float x) {
  float y = 0;
  std::vector<void*> pointers{&x, &y};
  std::vector<int64_t> extents{1}, strides{1, 1};
  launch(object, kernel.analysis(), {.pointers = pointers, .extents = extents, .strides = strides});
  return y;
}

class KernelCacheTest : public ::testing::Test {
 protected:
  KernelCacheTest() {
    std::string name = (fs::temp_directory_path() / "kernel-cache-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    KernelCompiler::instance().set_library_path(NEURON_CODEGEN_LIBRARY);
    clear_counters();
  }
  ~KernelCacheTest() override { fs::remove_all(directory_); }

  std::unique_ptr<DiskStore> store(const std::string& name) {
    DiskStore::Options o;
    o.directory = directory_ + "/" + name;
    return std::make_unique<DiskStore>(o);
  }

  KernelCache::Options options(int workers = 1) {
    KernelCache::Options o;
    o.build_id = KernelCompiler::instance().build_id();
    o.features = host_features();
    o.workers = workers;
    o.compile = [this](std::string_view text, const std::string& features) {
      ++compiles_;
      if (before_compile_) before_compile_(text);
      return KernelCompiler::instance().compile(text, features);
    };
    o.disk = store("disk");
    return o;
  }

  std::string directory_;
  std::atomic<int> compiles_{0};
  std::function<void(std::string_view)> before_compile_;
};

TEST_F(KernelCacheTest, BuildIdNamesTheLibrary) {
  EXPECT_GE(KernelCompiler::instance().build_id().size(), 16u);
}

TEST(KernelCompiler, ObjectsDoNotDependOnWhatTheirThreadCompiledBefore) {
  KernelCompiler& compiler = KernelCompiler::instance();
  compiler.set_library_path(NEURON_CODEGEN_LIBRARY);
  std::vector<std::string> first, again(20), other(20);
  for (int k = 0; k < 20; ++k) {
    first.push_back(compiler.compile(to_text(scale_nest(k)), host_features()));
  }
  const auto compile_backwards = [&](std::vector<std::string>* objects) {
    for (int k = 20; k-- > 0;) {
      EXPECT_THROW(compiler.compile("nest", host_features()), Error);  // leaves no trace
      (*objects)[static_cast<size_t>(k)] =
          compiler.compile(to_text(scale_nest(k)), host_features());
    }
  };
  std::thread thread([&] { compile_backwards(&other); });
  compile_backwards(&again);
  thread.join();
  EXPECT_EQ(again, first);
  EXPECT_EQ(other, first);
}

TEST_F(KernelCacheTest, BackgroundCompileSwapsIn) {
  KernelCache cache(options());
  Kernel& kernel = cache.find(scale_nest(3));
  EXPECT_EQ(&cache.find(scale_nest(3)), &kernel);
  EXPECT_EQ(kernel.object(), nullptr);
  cache.request(kernel);
  cache.request(kernel);
  cache.wait_idle();
  ASSERT_NE(kernel.object(), nullptr);
  EXPECT_EQ(run_one(*kernel.object(), kernel, 2), 6);
  EXPECT_EQ(compiles_, 1);
  EXPECT_EQ(counter("Kernel.Compile.Background").value(), 1);
  EXPECT_EQ(counter("Kernel.Compile.Foreground").value(), 0);
}

// Reads its thread's policy before and after the cache was hurried.
TEST_F(KernelCacheTest, WhatIsPendingCanBeHurried) {
  std::promise<int> before, after;
  std::promise<void> hurried;
  before_compile_ = [&](std::string_view) {
    before.set_value(::sched_getscheduler(0));
    hurried.get_future().wait();
    after.set_value(::sched_getscheduler(0));
  };
  KernelCache cache(options());
  cache.request(cache.find(scale_nest(7)));
  EXPECT_EQ(before.get_future().get(), SCHED_IDLE);
  cache.hurry();
  hurried.set_value();
  EXPECT_EQ(after.get_future().get(), SCHED_OTHER);
  cache.wait_idle();
  EXPECT_EQ(counter("Kernel.Hurried").value(), 1);
  cache.hurry();  // nothing is pending
  EXPECT_EQ(counter("Kernel.Hurried").value(), 1);
}

TEST_F(KernelCacheTest, ForegroundCompileIsCounted) {
  KernelCache cache(options());
  Kernel& kernel = cache.find(scale_nest(4));
  EXPECT_EQ(run_one(cache.require(kernel), kernel, 2), 8);
  EXPECT_EQ(&cache.require(kernel), kernel.object());
  EXPECT_EQ(counter("Kernel.Compile.Foreground").value(), 1);
  EXPECT_EQ(compiles_, 1);
}

TEST_F(KernelCacheTest, ASecondProcessLoadsFromDisk) {
  {
    KernelCache cache(options());
    cache.require(cache.find(scale_nest(5)));
  }
  KernelCache cache(options());
  Kernel& kernel = cache.find(scale_nest(5));
  ASSERT_NE(kernel.object(), nullptr);
  EXPECT_EQ(run_one(*kernel.object(), kernel, 2), 10);
  EXPECT_EQ(compiles_, 1);
  EXPECT_EQ(counter("Kernel.Hit.Disk").value(), 1);
}

TEST_F(KernelCacheTest, AnotherBuildOrFeatureListDoesNotMatch) {
  {
    KernelCache cache(options());
    cache.require(cache.find(scale_nest(5)));
  }
  for (int change = 0; change < 2; ++change) {
    KernelCache::Options o = options();
    if (change == 0) o.build_id = "another";
    if (change == 1) o.features = "";
    KernelCache cache(std::move(o));
    bool same = change == 1 && host_features().empty();
    EXPECT_EQ(cache.find(scale_nest(5)).object() != nullptr, same);
  }
}

TEST_F(KernelCacheTest, ShippedKernelsNeedNoCompile) {
  const std::string pack = directory_ + "/kernels.pack";
  build_kernel_pack({scale_nest(6), scale_nest(7)}, host_features(), pack);
  KernelCache::Options o = options();
  o.shipped = std::make_unique<ArtifactPack>(pack);
  KernelCache cache(std::move(o));
  Kernel& kernel = cache.find(scale_nest(7));
  ASSERT_NE(kernel.object(), nullptr);
  EXPECT_EQ(run_one(*kernel.object(), kernel, 2), 14);
  EXPECT_EQ(counter("Kernel.Hit.Shipped").value(), 1);
  EXPECT_EQ(compiles_, 0);
}

TEST_F(KernelCacheTest, AFailedCompileIsReportedOnceAndNeverRepeated) {
  before_compile_ = [](std::string_view) { throw Error(ErrorCode::kExecution, "injected"); };
  KernelCache cache(options());
  Kernel& kernel = cache.find(scale_nest(8));
  cache.request(kernel);
  cache.wait_idle();
  EXPECT_EQ(cache.state(kernel), Kernel::State::kFailed);
  EXPECT_EQ(cache.error(kernel), "injected");
  cache.request(kernel);
  try {
    cache.require(kernel);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.message(), "injected");
  }
  EXPECT_EQ(compiles_, 1);
  EXPECT_EQ(counter("Kernel.Compile.Failed").value(), 1);
  before_compile_ = nullptr;
  Kernel& other = cache.find(scale_nest(9));
  EXPECT_EQ(run_one(cache.require(other), other, 1), 9);
}

TEST_F(KernelCacheTest, CompilerErrorsCarryTheirText) {
  KernelCache::Options o = options();
  o.compile = [](std::string_view, const std::string& features) {
    return KernelCompiler::instance().compile("nest row parallel=1 rows=1\nscalar f99\n", features);
  };
  KernelCache cache(std::move(o));
  Kernel& kernel = cache.find(scale_nest(8));
  try {
    cache.require(kernel);
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("line 2: unknown dtype f99"), std::string::npos) << e.message();
  }
}

TEST_F(KernelCacheTest, NeverCompilesAKeyTwiceAtOnce) {
  std::promise<void> started, release;
  std::shared_future<void> released = release.get_future().share();
  std::atomic<bool> first{true};
  before_compile_ = [&](std::string_view) {
    if (first.exchange(false)) started.set_value();
    released.wait();
  };
  KernelCache cache(options(2));
  Kernel& kernel = cache.find(scale_nest(11));
  cache.request(kernel);
  started.get_future().wait();
  std::vector<std::thread> callers;
  std::atomic<int> right{0};
  for (int t = 0; t < 3; ++t)
    callers.emplace_back([&] { right += run_one(cache.require(kernel), kernel, 1) == 11; });
  release.set_value();
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(right, 3);
  EXPECT_EQ(compiles_, 1);
}

TEST_F(KernelCacheTest, ForegroundTakesAQueuedKernelOutOfTheQueue) {
  std::promise<void> started, release;
  std::shared_future<void> released = release.get_future().share();
  std::atomic<bool> first{true};
  before_compile_ = [&](std::string_view) {
    if (first.exchange(false)) {
      started.set_value();
      released.wait();
    }
  };
  KernelCache cache(options(1));
  cache.request(cache.find(scale_nest(1)));
  started.get_future().wait();  // the only worker is busy
  Kernel& kernel = cache.find(scale_nest(2));
  cache.request(kernel);
  EXPECT_EQ(cache.pending(), 2u);
  EXPECT_EQ(run_one(cache.require(kernel), kernel, 1), 2);
  EXPECT_EQ(cache.pending(), 1u);
  release.set_value();
  cache.wait_idle();
  EXPECT_EQ(compiles_, 2);
}

TEST_F(KernelCacheTest, EndsWithAFullQueue) {
  KernelCache cache(options(1));
  for (int k = 0; k < 20; ++k) cache.request(cache.find(scale_nest(100 + k)));
}

TEST_F(KernelCacheTest, AnObjectThatIsNoCodeIsCompiledAgain) {
  {
    KernelCache cache(options());
    Kernel& kernel = cache.find(scale_nest(12));
    store("disk")->save(kernel.key(), "not an object");
  }
  KernelCache cache(options());
  Kernel& kernel = cache.find(scale_nest(12));
  EXPECT_EQ(kernel.object(), nullptr);
  EXPECT_EQ(counter("Kernel.BadObject").value(), 1);
  EXPECT_EQ(run_one(cache.require(kernel), kernel, 1), 12);
}

TEST_F(KernelCacheTest, DiskThatCannotBeWrittenOnlyCounts) {
  std::ofstream(directory_ + "/file") << "x";
  KernelCache::Options o = options();
  o.disk = store("file/below");
  KernelCache cache(std::move(o));
  Kernel& kernel = cache.find(scale_nest(13));
  EXPECT_EQ(run_one(cache.require(kernel), kernel, 1), 13);
  EXPECT_EQ(counter("Kernel.SaveFailed").value(), 1);
}

TEST_F(KernelCacheTest, ADamagedShippedLevelFallsThroughToTheNext) {
  const std::string pack = directory_ + "/kernels.pack";
  build_kernel_pack({scale_nest(6)}, host_features(), pack);
  {
    KernelCache cache(options());
    cache.require(cache.find(scale_nest(6)));
  }
  const auto damage = [&](auto change) {
    std::fstream file(pack, std::ios::binary | std::ios::in | std::ios::out);
    change(file);
  };
  for (int kind = 0; kind < 3; ++kind) {
    build_kernel_pack({scale_nest(6)}, host_features(), pack);
    if (kind == 0) damage([](std::fstream& f) { f.seekp(-1, std::ios::end).put('x'); });
    if (kind == 1) damage([](std::fstream& f) { f.seekp(7).put('9'); });  // another version
    if (kind == 2) fs::resize_file(pack, fs::file_size(pack) / 2);
    clear_counters();
    KernelCache::Options o = options();
    o.shipped = std::make_unique<ArtifactPack>(pack);
    KernelCache cache(std::move(o));
    Kernel& kernel = cache.find(scale_nest(6));
    ASSERT_NE(kernel.object(), nullptr) << kind;
    EXPECT_EQ(run_one(*kernel.object(), kernel, 2), 12);
    EXPECT_EQ(counter("Kernel.Hit.Disk").value(), 1);
    EXPECT_EQ(counter("Store.Corrupt").value(), 1);
  }
  EXPECT_EQ(compiles_, 1);
}

TEST_F(KernelCacheTest, ShippedCodeThatIsNoCodeIsCompiledAgain) {
  const std::string pack = directory_ + "/kernels.pack";
  const ArtifactKey key =
      kernel_key(to_text(scale_nest(12)), KernelCompiler::instance().build_id(), host_features());
  ASSERT_TRUE(write_artifact_pack(pack, {{key, "not an object"}}));
  KernelCache::Options o = options();
  o.shipped = std::make_unique<ArtifactPack>(pack);
  KernelCache cache(std::move(o));
  Kernel& kernel = cache.find(scale_nest(12));
  EXPECT_EQ(kernel.object(), nullptr);
  EXPECT_EQ(counter("Kernel.BadObject").value(), 1);
  EXPECT_EQ(run_one(cache.require(kernel), kernel, 1), 12);
}

TEST_F(KernelCacheTest, AFullDiskOnlyCounts) {
  pid_t child = ::fork();
  if (child == 0) {
    // No file may grow past 64 bytes: writes fail half-way, as on a full disk.
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{64, 64};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    KernelCache cache(options());
    Kernel& kernel = cache.find(scale_nest(14));
    const bool right = run_one(cache.require(kernel), kernel, 1) == 14 &&
                       counter("Kernel.SaveFailed").value() == 1;
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// What one process does with twelve kernels; 0 if all is right.
int use_kernels(KernelCache::Options options, int first) {
  KernelCache cache(std::move(options));
  for (int k = 0; k < 12; ++k) {
    const int factor = 1 + (first + k) % 12;
    Kernel& kernel = cache.find(scale_nest(factor));
    if (k % 2 == 0) cache.request(kernel);
    if (run_one(cache.require(kernel), kernel, 2) != static_cast<float>(2 * factor)) return 1;
  }
  return counter("Kernel.BadObject").value() == 0 && counter("Kernel.SaveFailed").value() == 0 &&
                 counter("Store.Corrupt").value() == 0
             ? 0
             : 2;
}

TEST_F(KernelCacheTest, ProcessesShareAnEmptyCacheAndTheNextCompilesNothing) {
  std::vector<pid_t> children;
  for (int c = 0; c < 4; ++c) {
    pid_t child = ::fork();
    if (child == 0) ::_exit(use_kernels(options(), 3 * c));
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  pid_t next = ::fork();
  if (next == 0) {
    const int wrong = use_kernels(options(), 0);
    ::_exit(wrong != 0 ? wrong : compiles_ + (counter("Kernel.Hit.Disk").value() == 12 ? 0 : 100));
  }
  int status = -1;
  ASSERT_EQ(::waitpid(next, &status, 0), next);
  EXPECT_EQ(status, 0);
}

TEST(KernelObject, DamagedObjectsNeverCrash) {
  KernelCompiler::instance().set_library_path(NEURON_CODEGEN_LIBRARY);
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int in = b.operand(kF64, {kUnit}), out = b.operand(kF64, {kUnit});
  b.store(out, b.unary(NestOp::kExp, b.load(in)));  // calls libm: has stubs and relocations
  std::string elf = KernelCompiler::instance().compile(to_text(b.finish()), "");
  KernelObject sound(elf);
  EXPECT_EQ(sound.phases(), 1);
  std::mt19937 generator(3);
  for (int k = 0; k < 3000; ++k) {
    std::string bad = elf;
    if (k % 3 == 0) bad.resize(generator() % bad.size());
    for (int change = 0; change < 3 && !bad.empty(); ++change)
      bad[generator() % bad.size()] = static_cast<char>(generator());
    try {
      KernelObject object(bad);  // changed code bytes may well link
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace neuron::testing
