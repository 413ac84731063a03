// SPDX-License-Identifier: Apache-2.0
//
// ArtifactPack: many artifacts in one read-only file, found by their key's hash.
//
// The shipped level of the kernel store. Opening reads the index; loading an artifact is one binary
// search and one read of its bytes, checked against a checksum. A file that is missing, damaged,
// cut short or of another format is an empty pack, a damaged entry a counted miss; nothing here
// throws. The file is read, never mapped: a reader cannot be killed by somebody who cuts it short.
//
// Immutable, thread-safe. A pack that is replaced by a renamed file stays readable to its end.
//
//   write_artifact_pack(path, {{key, content}, ...});
//   ArtifactPack pack(path);
//   if (auto object = pack.load(key)) ...
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "neuron/store/artifact_key.h"

namespace neuron {

class ArtifactPack {
 public:
  struct Stats {
    int64_t hits = 0;
    int64_t misses = 0;
    int64_t corrupt = 0;  // of the misses; a file that is no pack counts once
  };

  explicit ArtifactPack(std::string path);
  ~ArtifactPack();
  ArtifactPack(const ArtifactPack&) = delete;
  ArtifactPack& operator=(const ArtifactPack&) = delete;

  std::optional<std::string> load(const ArtifactKey& key);

  size_t size() const { return index_.size(); }
  Stats stats() const { return {hits_, misses_, corrupt_}; }
  const std::string& path() const { return path_; }

  struct Entry {  // of the file's index
    Hash128 hash;
    Hash128 checksum;  // of the rest of the key, then the content
    uint64_t offset = 0;
    uint32_t key_bytes = 0;  // without the common prefix
    uint32_t content_bytes = 0;
  };

 private:
  bool open();
  void count_corrupt();

  const std::string path_;
  int fd_ = -1;               // constant after construction, -1: no pack
  std::string prefix_;        // that all keys begin with
  std::vector<Entry> index_;  // by hash
  std::atomic<int64_t> hits_{0}, misses_{0}, corrupt_{0};
};

// Writes the file under a temporary name and renames it; its bytes depend on the artifacts alone,
// not on their order. False if it could not be written; `errno` says why. Keys must differ.
bool write_artifact_pack(const std::string& path,
                         std::vector<std::pair<ArtifactKey, std::string>> artifacts);

}  // namespace neuron
