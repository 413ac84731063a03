// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/plan_dump.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/eager_testing.h"
#include "neuron/eager/window_log.h"
#include "neuron/host/kernel_cache.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

namespace fs = std::filesystem;
using test::Session;
using test::Tensor;

class PlanDumpTest : public ::testing::Test {
 protected:
  PlanDumpTest() : kernels_(KernelCache::Options{}) {
    directory_ = fs::temp_directory_path() / ("plan_dump_test_" + std::to_string(::getpid()));
    fs::remove_all(directory_);
    const Tensor x = s.empty({4, 8}), y = s.empty({4, 8}), z = s.empty({4});
    s.pointwise(LoweredOp::kMul, {x, x}, y);
    s.reduce(LoweredOp::kSum, y, {1}, false, {z});
    s.host([] {}, {z}, {x});
  }
  ~PlanDumpTest() override { fs::remove_all(directory_); }

  void write(PlanDump& dump) {
    const WindowForm& form = s.form();
    dump.write(form, make_plan(form), kernels_);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory_)) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::string read(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(directory_ / name).rdbuf();
    return text.str();
  }

  fs::path directory_;
  KernelCache kernels_;
  Session s;
};

TEST_F(PlanDumpTest, EveryPlanBecomesFilesThatSort) {
  PlanDump dump(directory_ / "not" / "yet");
  directory_ = directory_ / "not" / "yet";
  write(dump);
  write(dump);
  const auto names = files();
  const std::string first = "p" + std::to_string(::getpid()) + "-000001-";
  ASSERT_GE(names.size(), 8u);
  EXPECT_TRUE(names.front().starts_with(first)) << names.front();
  EXPECT_TRUE(names.back().starts_with("p" + std::to_string(::getpid()) + "-000002-"));

  const std::string window = read(first + "window.txt");
  EXPECT_NE(window.find("%0 aten::mul f32[4,8] <- f32[4,8], f32[4,8]"), std::string::npos)
      << window;
  EXPECT_NE(window.find("%1 aten::sum f32[4] <- f32[4,8]"), std::string::npos) << window;
  EXPECT_NE(window.find("host %2"), std::string::npos) << window;
  EXPECT_NE(read(first + "ir.txt").find("mul"), std::string::npos);
  int nests = 0;
  for (const std::string& name : names) {
    if (!name.ends_with(".nest") || !name.starts_with(first)) continue;
    ++nests;
    const LoopNest nest = parse_loop_nest(read(name));  // what was written is the kernel
    EXPECT_NE(name.find(kernel_name(kernels_.find(nest).key().hash.low)), std::string::npos)
        << name;
  }
  EXPECT_GE(nests, 1);
}

TEST_F(PlanDumpTest, TheNumberOfFilesIsBounded) {
  PlanDump dump(directory_, 9);
  const int64_t skipped = counter("Dump.Skipped").value();
  for (int i = 0; i < 5; ++i) write(dump);
  EXPECT_LE(files().size(), 9u);
  EXPECT_GE(files().size(), 3u);
  EXPECT_GT(counter("Dump.Skipped").value(), skipped);
}

TEST_F(PlanDumpTest, ABadDirectoryIsReportedOnceAndCounted) {
  std::ofstream(directory_) << "a file";
  PlanDump dump(directory_);
  const int64_t failed = counter("Dump.Failed").value();
  testing::internal::CaptureStderr();
  write(dump);
  write(dump);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(counter("Dump.Failed").value(), failed + 2);
  const size_t at = text.find("TORCH_NEURONX_DUMP_DIR");
  EXPECT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.find("TORCH_NEURONX_DUMP_DIR", at + 1), std::string::npos) << text;
}

TEST_F(PlanDumpTest, NothingWithoutADirectory) {
  PlanDump dump("");
  EXPECT_FALSE(dump.enabled());
  const int64_t files = counter("Dump.Files").value();
  write(dump);
  EXPECT_EQ(counter("Dump.Files").value(), files);
}

}  // namespace
}  // namespace neuron
