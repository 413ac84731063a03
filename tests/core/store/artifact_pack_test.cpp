// SPDX-License-Identifier: Apache-2.0
#include "neuron/store/artifact_pack.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <thread>

namespace neuron {
namespace {

namespace fs = std::filesystem;

class ArtifactPackTest : public ::testing::Test {
 protected:
  ArtifactPackTest() {
    std::string name = (fs::temp_directory_path() / "artifact-pack-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~ArtifactPackTest() override { fs::remove_all(directory_); }

  static ArtifactKey key(int k) { return ArtifactKey({"test", "build", std::to_string(k)}); }
  static std::string content(int k) {
    return std::string(static_cast<size_t>(k * 37 % 200), static_cast<char>('a' + k % 26));
  }

  void write_pack(int count) {
    std::vector<std::pair<ArtifactKey, std::string>> artifacts;
    for (int k = 0; k < count; ++k) artifacts.emplace_back(key(k), content(k));
    ASSERT_TRUE(write_artifact_pack(path(), std::move(artifacts)));
  }

  std::string path() const { return directory_ + "/pack"; }
  std::string read() const {
    std::ifstream in(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }

  std::string directory_;
};

TEST_F(ArtifactPackTest, LoadsWhatWasWritten) {
  write_pack(100);
  ArtifactPack pack(path());
  EXPECT_EQ(pack.size(), 100u);
  for (int k = 0; k < 100; ++k) EXPECT_EQ(pack.load(key(k)), content(k));
  EXPECT_FALSE(pack.load(key(100)));
  EXPECT_EQ(pack.stats().hits, 100);
  EXPECT_EQ(pack.stats().misses, 1);
  EXPECT_EQ(pack.stats().corrupt, 0);
}

TEST_F(ArtifactPackTest, SmallPacks) {
  write_pack(0);
  EXPECT_EQ(ArtifactPack(path()).size(), 0u);
  write_pack(1);  // the common prefix is the whole key
  ArtifactPack pack(path());
  EXPECT_EQ(pack.load(key(0)), content(0));
  EXPECT_FALSE(pack.load(key(1)));
}

TEST_F(ArtifactPackTest, BytesDoNotDependOnTheOrder) {
  write_pack(2);
  const std::string bytes = read();
  ASSERT_TRUE(write_artifact_pack(path(), {{key(1), content(1)}, {key(0), content(0)}}));
  EXPECT_EQ(read(), bytes);
}

TEST_F(ArtifactPackTest, NoFileIsAnEmptyPack) {
  ArtifactPack pack(path());
  EXPECT_EQ(pack.size(), 0u);
  EXPECT_FALSE(pack.load(key(0)));
  EXPECT_EQ(pack.stats().corrupt, 0);
  ArtifactPack folder(directory_);
  EXPECT_FALSE(folder.load(key(0)));
}

TEST_F(ArtifactPackTest, AnyDamagedByteIsACountedMiss) {
  write_pack(2);
  const std::string sound = read();
  for (size_t at = 0; at < sound.size(); ++at) {
    std::string bad = sound;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    write(bad);
    ArtifactPack pack(path());
    int lost = 0;
    for (int k = 0; k < 2; ++k) {
      const std::optional<std::string> found = pack.load(key(k));
      if (found) {
        EXPECT_EQ(*found, content(k)) << "byte " << at;
      } else {
        ++lost;
      }
    }
    EXPECT_GT(lost, 0) << "byte " << at;
    EXPECT_EQ(pack.stats().corrupt, 1) << "byte " << at;
  }
}

TEST_F(ArtifactPackTest, AnotherLengthOrFormatIsNoPack) {
  write_pack(2);
  const std::string sound = read();
  for (size_t length = 0; length < sound.size(); ++length) {
    write(sound.substr(0, length));
    ArtifactPack pack(path());
    EXPECT_EQ(pack.size(), 0u);
    EXPECT_EQ(pack.stats().corrupt, 1);
  }
  write(sound + "x");
  EXPECT_EQ(ArtifactPack(path()).size(), 0u);
  std::string later = sound;
  later[7] = '2';  // the version
  write(later);
  EXPECT_EQ(ArtifactPack(path()).size(), 0u);
}

TEST_F(ArtifactPackTest, CutShortWhileOpenIsAMiss) {
  write_pack(50);
  ArtifactPack pack(path());
  fs::resize_file(path(), 100);
  for (int k = 1; k < 50; ++k) EXPECT_FALSE(pack.load(key(k)));
  EXPECT_EQ(pack.stats().corrupt, 49);
}

TEST_F(ArtifactPackTest, AReplacedPackStaysReadable) {
  write_pack(50);
  ArtifactPack pack(path());
  write_pack(10);
  EXPECT_EQ(pack.load(key(49)), content(49));
  EXPECT_FALSE(ArtifactPack(path()).load(key(49)));
}

TEST_F(ArtifactPackTest, AnotherKeyWithTheSameHashIsAMiss) {
  write_pack(4);
  ArtifactPack pack(path());
  ArtifactKey other({"foreign"});
  other.hash = key(1).hash;
  EXPECT_FALSE(pack.load(other));
  EXPECT_EQ(pack.load(key(1)), content(1));
  EXPECT_EQ(pack.stats().corrupt, 0);
}

TEST_F(ArtifactPackTest, FullDiskLeavesTheEarlierPack) {
  write_pack(4);
  const std::string sound = read();
  pid_t child = ::fork();
  if (child == 0) {
    // No file may grow past 64 bytes: writes fail half-way, as on a full disk.
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{64, 64};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const bool written = write_artifact_pack(path(), {{key(9), content(9)}});
    ::_exit(written || errno != EFBIG ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read(), sound);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1);
}

TEST_F(ArtifactPackTest, ThreadsShareAPack) {
  write_pack(100);
  ArtifactPack pack(path());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 100; ++k)
        wrong += pack.load(key((k + t * 31) % 100)) != content((k + t * 31) % 100);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pack.stats().hits, 300);
}

}  // namespace
}  // namespace neuron
