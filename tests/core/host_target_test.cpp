// SPDX-License-Identifier: Apache-2.0
#include "neuron/target/host_target.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "neuron/base/error.h"
#include "neuron/target/memory_limit.h"

namespace neuron {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

HostTarget::Options options(int64_t num_cores, std::string visible = "", double hbm = 24,
                            int64_t memory = 100 * kGiB) {
  return {num_cores, std::move(visible), hbm, memory};
}

std::vector<int> cores(const HostTarget::Options& o) {
  const HostTarget target(o);
  std::vector<int> result;
  for (int i = 0; i < target.device_count(); ++i) result.push_back(target.core(i));
  return result;
}

std::string error(const HostTarget::Options& o) {
  try {
    HostTarget target(o);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
    return e.message();
  }
  return "";
}

TEST(HostTarget, CoresComeFromTheEnvironment) {
  EXPECT_EQ(cores(options(4)), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(cores(options(1)), (std::vector<int>{0}));
  EXPECT_EQ(cores(options(4, "2")), (std::vector<int>{2}));
  EXPECT_EQ(cores(options(1, "0,2-3")), (std::vector<int>{0, 2, 3}));
  EXPECT_EQ(cores(options(4, " 5 , 1 - 2 ")), (std::vector<int>{5, 1, 2}));
  EXPECT_EQ(cores(options(2, " ")), (std::vector<int>{0, 1}));
  EXPECT_EQ(cores(options(4, "63")), (std::vector<int>{63}));
}

TEST(HostTarget, WrongSettingsAreNamed) {
  const auto contains = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in \"" << text << "\"";
  };
  contains(error(options(0)), "NEURON_RT_NUM_CORES=0");
  contains(error(options(65)), "expected 1 to 64");
  for (const char* list : {"a", "1,", ",", "1,,2", "-1", "1-", "1-x", "1.5", "0x1", "1 2", "1-2-3",
                           "99999999999", "+1"}) {
    const std::string text = error(options(4, list));
    contains(text, ("NEURON_RT_VISIBLE_CORES=" + std::string(list)).c_str());
    contains(text, "such as 0,2-3");
  }
  contains(error(options(4, "3-1")), "descending");
  contains(error(options(4, "0-2,1")), "core 1 appears twice");
  contains(error(options(4, "64")), "core 64 is above the last possible one, 63");
  contains(error(options(4, "", 0)), "TORCH_NEURONX_VIRTUAL_HBM_GB");
  contains(error(options(4, "", std::numeric_limits<double>::quiet_NaN())), "VIRTUAL_HBM_GB");
}

TEST(HostTarget, CapacityIsTheSettingOrTheShare) {
  const auto memory = [](const HostTarget::Options& o) {
    const DeviceProperties properties = HostTarget(o).properties(0);
    EXPECT_TRUE(properties.is_virtual);
    EXPECT_NE(properties.name.find("Virtual"), std::string::npos);
    return properties.total_memory;
  };
  EXPECT_EQ(memory(options(1, "", 24, 100 * kGiB)), 24 * kGiB);
  EXPECT_EQ(memory(options(1, "", 0.5, 100 * kGiB)), kGiB / 2);
  EXPECT_EQ(memory(options(4, "", 24, 50 * kGiB)), 10 * kGiB);
  EXPECT_EQ(memory(options(4, "1", 24, 50 * kGiB)), 10 * kGiB);    // the rest is for others
  EXPECT_EQ(memory(options(4, "0-7", 24, 100 * kGiB)), 10 * kGiB);
  EXPECT_EQ(memory(options(1, "", std::numeric_limits<double>::infinity(), 10 * kGiB)), 8 * kGiB);
}

TEST(HostTarget, LargeSegmentsAreAlignedToHugePages) {
  HostTarget target(options(1));
  for (size_t bytes : {size_t{2} << 20, (size_t{2} << 20) + 4096, size_t{20} << 20}) {
    void* address = target.allocate_segment(0, bytes);
    ASSERT_NE(address, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(address) % (2 << 20), 0u);
    target.free_segment(0, address, bytes);
  }
}

TEST(HostTarget, PreparesThreadsByTheHook) {
  static int calls = 0;
  HostTarget target(options(1));
  target.prepare_thread();
  EXPECT_EQ(calls, 0);
  HostTarget::set_thread_preparation([] { ++calls; });
  target.prepare_thread();
  EXPECT_EQ(calls, 1);
  HostTarget::set_thread_preparation(nullptr);
  target.prepare_thread();
  EXPECT_EQ(calls, 1);
}

class MemoryLimit : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() /
            ("neuron_memory_limit_" + std::to_string(::getpid()));
    write("/proc/meminfo", "MemTotal:        1000 kB\nMemFree:   5 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_.string() + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  int64_t limit() const { return memory_limit(root_.string()); }

  std::filesystem::path root_;
};

TEST_F(MemoryLimit, MachineWithoutControlGroups) { EXPECT_EQ(limit(), 1000 * 1024); }

TEST_F(MemoryLimit, UnknownMemoryIsAnError) {
  std::filesystem::remove(root_ / "proc/meminfo");
  EXPECT_THROW(limit(), Error);
}

TEST_F(MemoryLimit, VersionTwoOfTheGroupAndItsParents) {
  write("/proc/self/cgroup", "0::/a/b\n");
  write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(limit(), 1000 * 1024);
  write("/sys/fs/cgroup/a/memory.max", "500000\n");
  EXPECT_EQ(limit(), 500000);
  write("/sys/fs/cgroup/a/b/memory.high", "400000\n");
  EXPECT_EQ(limit(), 400000);
  write("/sys/fs/cgroup/memory.max", "300000\n");
  EXPECT_EQ(limit(), 300000);
  write("/sys/fs/cgroup/other/memory.max", "1\n");
  EXPECT_EQ(limit(), 300000);
}

TEST_F(MemoryLimit, VersionOneWithAPathOfTheHost) {
  write("/proc/self/cgroup", "9:cpu,cpuacct:/x\n4:hugetlb,memory:/docker/abc\n0::/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "200000\n");
  EXPECT_EQ(limit(), 200000);
  write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), 200000);
  write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "100000\n");
  EXPECT_EQ(limit(), 100000);
}

TEST_F(MemoryLimit, OddFilesAreNoLimit) {
  write("/proc/self/cgroup", "nonsense\n0::/\n");
  write("/sys/fs/cgroup/memory.max", "12abc\n");
  EXPECT_EQ(limit(), 1000 * 1024);
}

TEST(MemoryLimitHere, IsPlausible) { EXPECT_GT(memory_limit(), 100 << 20); }

}  // namespace
}  // namespace neuron
