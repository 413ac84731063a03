// SPDX-License-Identifier: Apache-2.0
//
// DiskStore: artifacts in a directory, shared by any number of processes.
//
// An entry is one file, named by its key's hash, holding key, content and checksum. It is written
// under a temporary name and renamed, so readers see all of it or nothing; a crash leaves at most a
// temporary file, which a later process removes. Whatever is damaged, cut short, or of another
// format is a counted miss and removed. Nothing here throws for the state of the disk: a full or
// read-only directory turns saves into counted failures.
//
// Size: saves past `max_bytes` evict the least recently used entries down to 7/8 of it. Entries
// that a living process has loaded or saved are in use and stay: each process holds a shared lock
// on one byte per entry of the file `in-use`, and the kernel of the operating system drops it at
// its end.
//
// Thread-safe. Reads take no lock; eviction is done by one process at a time.
//
//   DiskStore store({.directory = dir, .max_bytes = 1 << 30});
//   if (auto object = store.load(key)) ...
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "neuron/store/artifact_key.h"

namespace neuron {

class DiskStore {
 public:
  struct Options {
    std::string directory;
    int64_t max_bytes = 0;  // 0: no limit
  };
  struct Stats {
    int64_t hits = 0;
    int64_t misses = 0;
    int64_t corrupt = 0;  // of the misses
    int64_t saves = 0;
    int64_t save_failures = 0;
    int64_t evictions = 0;
  };

  // Creates the directory if it can; never throws for what it finds there.
  explicit DiskStore(Options options);
  ~DiskStore();
  DiskStore(const DiskStore&) = delete;
  DiskStore& operator=(const DiskStore&) = delete;

  std::optional<std::string> load(const ArtifactKey& key);
  // False if it could not be written; counted.
  bool save(const ArtifactKey& key, std::string_view content);

  Stats stats() const;
  const std::string& directory() const { return options_.directory; }
  std::string path(const ArtifactKey& key) const;  // of the entry's file

 private:
  void open_lock_file();  // mutex_ held
  void mark_in_use(const Hash128& hash);
  void evict();
  void remove_leftovers();

  const Options options_;
  std::atomic<int64_t> hits_{0}, misses_{0}, corrupt_{0}, saves_{0}, save_failures_{0},
      evictions_{0};
  std::atomic<int64_t> bytes_{-1};      // estimate of the directory's size, -1: not yet known
  std::atomic<uint64_t> next_file_{0};  // of temporary names
  std::mutex mutex_;
  std::set<Hash128> used_;  // guarded by mutex_: entries that this process holds
  int lock_file_ = -1;      // guarded by mutex_; -1: not open
};

}  // namespace neuron
