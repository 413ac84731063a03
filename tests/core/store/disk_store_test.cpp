// SPDX-License-Identifier: Apache-2.0
#include "neuron/store/disk_store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

namespace neuron {
namespace {

namespace fs = std::filesystem;

class DiskStoreTest : public ::testing::Test {
 protected:
  DiskStoreTest() {
    std::string name = (fs::temp_directory_path() / "disk-store-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~DiskStoreTest() override { fs::remove_all(directory_); }

  DiskStore::Options options(int64_t max_bytes = 0) const {
    DiskStore::Options o;
    o.directory = directory_;
    o.max_bytes = max_bytes;
    return o;
  }

  static ArtifactKey key(int k) { return ArtifactKey({"test", std::to_string(k)}); }

  // Sets the time of last use, seconds before now.
  void age(const DiskStore& store, int k, int seconds) const {
    fs::last_write_time(store.path(key(k)),
                        fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  }

  std::string read(const std::string& path) const {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void write(const std::string& path, const std::string& bytes) const {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  }

  std::string directory_;
};

TEST(Hash128, DiffersInEveryBitAndLength) {
  std::set<std::string> seen;
  for (size_t length = 0; length < 40; ++length)
    EXPECT_TRUE(seen.insert(hash128(std::string(length, '\0')).hex()).second);
  std::string text(33, 'x');
  for (size_t bit = 0; bit < text.size() * 8; ++bit) {
    std::string changed = text;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_TRUE(seen.insert(hash128(changed).hex()).second);
  }
}

TEST(ArtifactKey, PartsDoNotRunTogether) {
  EXPECT_NE(ArtifactKey({"ab", "c"}).text, ArtifactKey({"a", "bc"}).text);
  EXPECT_NE(ArtifactKey({"a", ""}).text, ArtifactKey({"a"}).text);
}

TEST_F(DiskStoreTest, SavesAndLoadsAcrossInstances) {
  std::string content = std::string("code\0with zeros", 15) + std::string(100000, 'z');
  {
    DiskStore store(options());
    EXPECT_FALSE(store.load(key(1)));
    EXPECT_TRUE(store.save(key(1), content));
    EXPECT_TRUE(store.save(key(2), ""));
  }
  DiskStore store(options());
  EXPECT_EQ(store.load(key(1)), content);
  EXPECT_EQ(store.load(key(2)), "");
  EXPECT_FALSE(store.load(key(3)));
  EXPECT_EQ(store.stats().hits, 2);
  EXPECT_EQ(store.stats().misses, 1);
}

TEST_F(DiskStoreTest, AnyDamagedByteIsACountedMissAndTheEntryHeals) {
  DiskStore store(options());
  ASSERT_TRUE(store.save(key(1), "some content"));
  std::string sound = read(store.path(key(1)));
  for (size_t at = 0; at < sound.size(); ++at) {
    std::string bad = sound;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    write(store.path(key(1)), bad);
    EXPECT_FALSE(store.load(key(1))) << "byte " << at;
    EXPECT_FALSE(fs::exists(store.path(key(1))));
  }
  EXPECT_EQ(store.stats().corrupt, static_cast<int64_t>(sound.size()));
  EXPECT_TRUE(store.save(key(1), "some content"));
  EXPECT_EQ(store.load(key(1)), "some content");
}

TEST_F(DiskStoreTest, CutShortOrTooLongIsAMiss) {
  DiskStore store(options());
  ASSERT_TRUE(store.save(key(1), "some content"));
  std::string sound = read(store.path(key(1)));
  for (size_t length = 0; length < sound.size(); ++length) {
    write(store.path(key(1)), sound.substr(0, length));
    EXPECT_FALSE(store.load(key(1))) << length;
  }
  write(store.path(key(1)), sound + "x");
  EXPECT_FALSE(store.load(key(1)));
}

TEST_F(DiskStoreTest, AnotherKeyWithTheSameHashIsAMiss) {
  DiskStore store(options());
  ASSERT_TRUE(store.save(key(1), "first"));
  ArtifactKey other = key(2);
  other.hash = key(1).hash;
  EXPECT_FALSE(store.load(other));
  EXPECT_EQ(store.load(key(1)), "first");
  EXPECT_EQ(store.stats().corrupt, 0);
}

TEST_F(DiskStoreTest, DirectoryThatCannotBeWrittenOnlyCounts) {
  write(directory_ + "/file", "");
  DiskStore::Options o = options(1000);
  o.directory = directory_ + "/file/below";  // not even root can create it
  DiskStore store(o);
  EXPECT_FALSE(store.load(key(1)));
  EXPECT_FALSE(store.save(key(1), "content"));
  EXPECT_EQ(store.stats().save_failures, 1);
}

TEST_F(DiskStoreTest, FullDiskFailsTheSaveAndLeavesNoTrace) {
  pid_t child = ::fork();
  if (child == 0) {
    // No file may grow past 64 bytes: writes fail half-way, as on a full disk.
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{64, 64};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    DiskStore store(options());
    bool saved = store.save(key(1), std::string(1000, 'x'));
    ::_exit(saved || store.stats().save_failures != 1 || store.load(key(1)) ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const auto& entry : fs::directory_iterator(directory_))
    EXPECT_EQ(entry.path().filename(), "in-use");
}

TEST_F(DiskStoreTest, DirectoryWithoutWritePermissionServesAndOnlyCounts) {
  ASSERT_TRUE(DiskStore(options()).save(key(1), "content"));
  fs::permissions(directory_, fs::perms(0555));
  pid_t child = ::fork();
  if (child == 0) {
    // Permissions do not bind root.
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    DiskStore store(options(1));  // every save would evict
    const bool right = store.load(key(1)) == "content" && !store.save(key(2), "more") &&
                       store.stats().save_failures == 1 && store.load(key(1)) == "content";
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  fs::permissions(directory_, fs::perms(0755));
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(DiskStore(options()).load(key(2)));
}

TEST_F(DiskStoreTest, ProcessesThatWriteOneKeyAtOnce) {
  const std::string expected(200000, 'k');
  std::vector<pid_t> children;
  for (int c = 0; c < 4; ++c) {
    pid_t child = ::fork();
    if (child == 0) {
      DiskStore store(options());
      bool sound = true;
      for (int round = 0; round < 20; ++round) {
        sound &= store.save(key(1), expected);
        sound &= store.load(key(1)) == expected;
      }
      ::_exit(sound && store.stats().corrupt == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(DiskStore(options()).load(key(1)), expected);
}

TEST_F(DiskStoreTest, EvictsTheLeastRecentlyUsedAndSparesWhatIsInUse) {
  {
    DiskStore writer(options());
    for (int k = 0; k < 10; ++k) ASSERT_TRUE(writer.save(key(k), std::string(1000, 'a')));
    for (int k = 0; k < 10; ++k) age(writer, k, 1000 - k);
  }
  DiskStore store(options(8000));
  ASSERT_TRUE(store.load(key(0)));  // the oldest, but in use from now on
  age(store, 0, 5000);
  ASSERT_TRUE(store.save(key(10), std::string(1000, 'b')));
  EXPECT_TRUE(store.load(key(0)));
  EXPECT_TRUE(store.load(key(10)));
  EXPECT_FALSE(store.load(key(1)));
  EXPECT_TRUE(store.load(key(9)));
  EXPECT_GE(store.stats().evictions, 3);
  int64_t total = 0;
  for (const auto& entry : fs::directory_iterator(directory_))
    total += static_cast<int64_t>(entry.file_size());
  EXPECT_LE(total, 8000);
}

TEST_F(DiskStoreTest, EntriesInUseByAnotherProcessStayUntilItEnds) {
  {
    DiskStore writer(options());
    for (int k = 0; k < 5; ++k) ASSERT_TRUE(writer.save(key(k), std::string(1000, 'a')));
    for (int k = 0; k < 5; ++k) age(writer, k, 1000 - k);
  }
  int ready[2], release[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(release), 0);
  pid_t child = ::fork();
  if (child == 0) {
    DiskStore store(options());
    bool loaded = store.load(key(0)).has_value();
    age(store, 0, 9000);
    char byte = loaded ? 'y' : 'n';
    bool told = ::write(ready[1], &byte, 1) == 1;
    bool ended = ::read(release[0], &byte, 1) == 1;
    ::_exit(told && ended ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  {
    DiskStore store(options(2500));
    ASSERT_TRUE(store.save(key(20), "x"));
    EXPECT_TRUE(fs::exists(store.path(key(0))));
    EXPECT_FALSE(fs::exists(store.path(key(1))));
  }
  ASSERT_EQ(::write(release[1], &byte, 1), 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  DiskStore store(options(500));
  ASSERT_TRUE(store.save(key(21), "x"));
  EXPECT_FALSE(fs::exists(store.path(key(0))));
  for (int fd : {ready[0], ready[1], release[0], release[1]}) ::close(fd);
}

TEST_F(DiskStoreTest, ManyProcessesOnOneEmptyDirectory) {
  std::vector<pid_t> children;
  for (int c = 0; c < 4; ++c) {
    pid_t child = ::fork();
    if (child == 0) {
      DiskStore store(options(40000));  // small enough to evict while others read
      bool sound = true;
      for (int round = 0; round < 50; ++round) {
        int k = (round * 7 + c * 3) % 30;
        std::string expected(2000 + k, static_cast<char>('a' + k % 26));
        std::optional<std::string> found = store.load(key(k));
        if (found) sound = sound && *found == expected;
        if (!found) sound = store.save(key(k), expected) && sound;
      }
      ::_exit(sound && store.stats().corrupt == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST_F(DiskStoreTest, RemovesWhatACrashLeft) {
  write(directory_ + "/tmp-1-1", "half an entry");
  write(directory_ + "/tmp-2-1", "being written");
  fs::last_write_time(directory_ + "/tmp-1-1",
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  DiskStore store(options());
  EXPECT_FALSE(fs::exists(directory_ + "/tmp-1-1"));
  EXPECT_TRUE(fs::exists(directory_ + "/tmp-2-1"));
}

TEST_F(DiskStoreTest, ThreadsShareAStore) {
  DiskStore store(options(20000));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 60; ++round) {
        int k = (round + t * 5) % 20;
        std::string expected(1000, static_cast<char>('a' + k));
        std::optional<std::string> found = store.load(key(k));
        if (found && *found != expected) ++wrong;
        if (!found) store.save(key(k), expected);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(store.stats().corrupt, 0);
}

}  // namespace
}  // namespace neuron
