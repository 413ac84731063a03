// SPDX-License-Identifier: Apache-2.0
//
// The executor under a stream: fused and single kernels, plans at new sizes, temporaries in reused
// memory, poison, failed compiles.
#include "neuron/eager/executor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/codegen_eager/test_kernels.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

using test::Session;
using test::Sizes;
using test::Tensor;

class ExecutorTest : public ::testing::Test {
 protected:
  explicit ExecutorTest(KernelCache& kernels = test::kernels()) : executor_(kernels) {}

  std::vector<std::string> run(bool may_fail = false) {
    return test::run_window(s.window(), executor_, EagerMode::kAdaptive, may_fail);
  }
  static int64_t count(const char* name) { return counter(name).value(); }

  // y = rmsnorm(x) and its consumer, with temporaries.
  Tensor norm(const Tensor& x, const Tensor& weight) {
    Sizes rows = x.sizes;
    rows.back() = 1;
    const Tensor square = s.empty(x.sizes), mean = s.empty(rows), shifted = s.empty(rows);
    const Tensor scale = s.empty(rows), scaled = s.empty(x.sizes), y = s.empty(x.sizes);
    s.pointwise(LoweredOp::kSquare, {x}, square);
    s.reduce(LoweredOp::kMean, square, {x.sizes.size() - 1}, true, {mean});
    s.with_scalar(LoweredOp::kAdd, mean, 1e-6, shifted);
    s.pointwise(LoweredOp::kRsqrt, {shifted}, scale);
    s.pointwise(LoweredOp::kMul, {x, scale}, scaled);
    s.pointwise(LoweredOp::kMul, {scaled, weight}, y);
    return y;
  }
  void check_norm(const Tensor& x, const Tensor& weight, const Tensor& y) {
    const int64_t width = x.sizes.back();
    for (int64_t r = 0; r < x.numel() / width; ++r) {
      double total = 0;
      for (int64_t k = 0; k < width; ++k) total += std::pow(test::get(x, r * width + k), 2);
      const double scale = 1 / std::sqrt(total / static_cast<double>(width) + 1e-6);
      for (int64_t k = 0; k < width; ++k) {
        ASSERT_NEAR(test::get(y, r * width + k),
                    test::get(x, r * width + k) * scale * test::get(weight, k), 1e-5);
      }
    }
  }
  Tensor ramp(const Sizes& sizes) {
    Tensor t = s.empty(sizes);
    for (int64_t i = 0; i < t.numel(); ++i) test::set(t, i, std::sin(static_cast<double>(i)));
    return t;
  }

  Session s;
  EagerExecutor executor_;
};

TEST_F(ExecutorTest, ARepeatedWindowRunsAsOneKernelAtAnySize) {
  for (const Sizes& sizes :
       {Sizes{4, 32}, Sizes{4, 32}, Sizes{4, 32}, Sizes{9, 21}, Sizes{2, 100}}) {
    const Tensor x = ramp(sizes), weight = ramp({sizes.back()});
    const Tensor y = norm(x, weight);
    const int64_t fused = count("Launch.Fused"), misses = count("Plan.Misses");
    run();
    test::kernels().wait_idle();
    check_norm(x, weight, y);
    if (sizes[0] == 9 || sizes[0] == 2) {
      EXPECT_EQ(count("Launch.Fused"), fused + 1);
      EXPECT_EQ(count("Plan.Misses"), misses);
    }
  }
}

TEST_F(ExecutorTest, TemporariesInReusedMemoryDoNotMeet) {
  const Tensor x = ramp({64}), z = ramp({64});
  for (int repeat = 0; repeat < 3; ++repeat) {
    // `a` goes through memory since its reader needs another order of the elements; `b` takes its
    // place in memory before that reader runs.
    Tensor a = s.empty({64}), reader = s.empty({8, 8}), b, result = s.empty({8, 8});
    s.pointwise(LoweredOp::kNeg, {x}, a);
    const Tensor square = a.reshape({8, 8});
    s.pointwise(LoweredOp::kAdd, {square, square.transpose(0, 1)}, reader);
    a = Tensor();
    const Tensor kept = s.empty({64});
    s.pointwise(LoweredOp::kTanh, {z}, kept);
    s.pointwise(LoweredOp::kNeg, {reader}, result);
    run();
    test::kernels().wait_idle();
    for (int64_t i = 0; i < 64; ++i) {
      EXPECT_NEAR(test::get(kept, i), std::tanh(test::get(z, i)), 1e-6);
      EXPECT_NEAR(test::get(result, i), test::get(x, i) + test::get(x, i % 8 * 8 + i / 8), 1e-6);
    }
  }
}

TEST_F(ExecutorTest, PoisonReachesExactlyTheDependants) {
  const Tensor x = ramp({16}), other = ramp({16});
  for (int repeat = 0; repeat < 3; ++repeat) {
    const Tensor bad = s.empty({16}), a = s.empty({16}), b = s.empty({16}), c = s.empty({16});
    s.host([] { throw Error(ErrorCode::kExecution, "broken on purpose"); }, {x}, {bad});
    s.pointwise(LoweredOp::kTanh, {other}, a);  // independent, in the kernel of the next
    s.pointwise(LoweredOp::kAdd, {a, bad}, b);
    s.pointwise(LoweredOp::kNeg, {b}, c);
    const std::vector<std::string> errors = run(true);
    test::kernels().wait_idle();
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_NE(errors[0].find("broken on purpose"), std::string::npos);
    EXPECT_FALSE(a.storage->poisoned());
    EXPECT_TRUE(b.storage->poisoned());
    EXPECT_TRUE(c.storage->poisoned());
    for (int64_t i = 0; i < 16; ++i) {
      EXPECT_NEAR(test::get(a, i), std::tanh(test::get(other, i)), 1e-6);
    }
  }
}

TEST_F(ExecutorTest, AFullOverwriteHealsPoison) {
  const Tensor x = ramp({16}), y = s.empty({16});
  s.host([] { throw Error(ErrorCode::kExecution, "broken on purpose"); }, {x}, {y});
  s.pointwise(LoweredOp::kNeg, {x}, y);
  run(true);
  EXPECT_FALSE(y.storage->poisoned());
}

KernelCache::Options no_fused_kernels() {
  KernelCompiler::instance().set_library_path(NEURON_CODEGEN_LIBRARY);
  KernelCache::Options options;
  options.build_id = "failing";
  options.features = host_features();
  options.compile = [](std::string_view text, const std::string& features) {
    // A kernel of several operations is recognised by both of its functions.
    if (text.find("tanh") != std::string::npos && text.find("exp") != std::string::npos) {
      throw Error(ErrorCode::kExecution, "compile failure on purpose");
    }
    return KernelCompiler::instance().compile(text, features);
  };
  return options;
}

class FailingCompile : public ExecutorTest {
 protected:
  FailingCompile() : FailingCompile(std::make_unique<KernelCache>(no_fused_kernels())) {}
  explicit FailingCompile(std::unique_ptr<KernelCache> cache)
      : ExecutorTest(*cache), cache_(std::move(cache)) {}
  std::unique_ptr<KernelCache> cache_;
};

TEST_F(FailingCompile, StaysOnSingleKernels) {
  const Tensor x = ramp({16});
  const int64_t failed = count("Kernel.Compile.Failed"), single = count("Launch.Single");
  const int64_t waiting = count("Launch.FusedNotCompiled");
  for (int repeat = 0; repeat < 4; ++repeat) {
    const Tensor y = s.empty({16});
    {
      const Tensor t = s.empty({16});
      s.pointwise(LoweredOp::kTanh, {x}, t);
      s.pointwise(LoweredOp::kExp, {t}, y);
    }
    const int64_t fused = count("Launch.Fused");
    EXPECT_TRUE(run().empty());
    cache_->wait_idle();
    EXPECT_EQ(count("Launch.Fused"), fused);
    for (int64_t i = 0; i < 16; ++i) {
      EXPECT_NEAR(test::get(y, i), std::exp(std::tanh(test::get(x, i))), 1e-5);
    }
  }
  EXPECT_EQ(count("Kernel.Compile.Failed"), failed + 1);
  EXPECT_EQ(count("Launch.Single"), single + 8);
  EXPECT_GT(count("Launch.FusedNotCompiled"), waiting);
}

std::unique_ptr<RecordExecutor> make_executor(const Stream& stream) {
  return std::make_unique<EagerExecutor>(test::kernels(), &stream);
}

// Adds one to a tensor many times, and reads it now and then.
void count_on_a_stream(Stream::MakeExecutor make) {
  set_eager_mode(EagerMode::kAdaptive);
  Stream::set_executor(make);
  {
    Runtime runtime(std::make_unique<test::SmallTarget>(1));
    Device& device = runtime.device(0);
    Stream& stream = device.default_stream();
    Block* block = device.pool().allocate(64 * sizeof(float), &stream);
    auto* data = reinterpret_cast<float*>(block->address());
    std::fill_n(data, 64, 0.0f);
    const int64_t size = 64, stride = 1;
    TensorRef ref;
    ref.block = block;
    ref.sizes = &size;
    ref.strides = &stride;
    ref.rank = 1;
    ref.dtype = DType::kFloat32;
    AttributeWriter a;
    a.structural(static_cast<int64_t>(DType::kFloat32));
    a.structural(0b10);
    a.value(1.0);
    constexpr int kSteps = 3000;
    for (int i = 0; i < kSteps; ++i) {
      RecordRequest request;
      request.op = op_id(LoweredOp::kAdd);
      request.inputs = std::span<const TensorRef>(&ref, 1);
      request.outputs = std::span<const TensorRef>(&ref, 1);
      request.attributes = a.bytes();
      stream.record(std::move(request));
      if (i % 1000 == 999) {
        stream.synchronize();
        EXPECT_EQ(data[63], static_cast<float>(i + 1));
      }
    }
    device.pool().free(block);
    runtime.shutdown();
  }
  Stream::set_executor(nullptr);
  test::kernels().wait_idle();
}

TEST(EagerStreamTest, StreamsRunLoweredOperations) { count_on_a_stream(make_executor); }

TEST(EagerStreamTest, WaitsTakeAsLongAsAnEmulatedCompile) {
  using namespace std::chrono_literals;
  static EmulatedTarget target({.base = 150ms, .per_operation = 1us, .launch = 20us});
  const auto started = std::chrono::steady_clock::now();
  count_on_a_stream([](const Stream&) -> std::unique_ptr<RecordExecutor> {
    auto executor = std::make_unique<EagerExecutor>(test::kernels());
    executor->emulate(target);
    return executor;
  });
  EXPECT_GE(std::chrono::steady_clock::now() - started, 150ms);
}

}  // namespace
}  // namespace neuron
