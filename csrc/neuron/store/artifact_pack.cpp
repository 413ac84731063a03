// SPDX-License-Identifier: Apache-2.0
//
// The file: header, common prefix of all keys, index by hash, then per entry the rest of its key
// and its content.
#include "neuron/store/artifact_pack.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "neuron/base/error.h"
#include "neuron/store/file_io.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

constexpr char kMagic[8] = {'N', 'R', 'N', 'P', 'C', 'K', '0', '1'};
constexpr uint64_t kMaxPrefixBytes = 1 << 16;
constexpr uint64_t kMaxEntries = 1 << 22;

struct Header {
  char magic[8];
  uint64_t file_bytes;
  uint64_t prefix_bytes;
  uint64_t entries;
  Hash128 checksum;  // of the three numbers above, the prefix and the index
};

using Entry = ArtifactPack::Entry;
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 48);
static_assert(std::is_trivially_copyable_v<Entry> && sizeof(Entry) == 48);

Hash128 checksum(const Header& header, std::string_view prefix, const std::vector<Entry>& index) {
  std::string bytes(reinterpret_cast<const char*>(&header.file_bytes), 3 * sizeof(uint64_t));
  bytes += prefix;
  bytes.append(reinterpret_cast<const char*>(index.data()), index.size() * sizeof(Entry));
  return hash128(bytes);
}

std::string common_prefix(const std::vector<std::pair<ArtifactKey, std::string>>& artifacts) {
  if (artifacts.empty()) return "";
  std::string prefix = artifacts[0].first.text.substr(0, kMaxPrefixBytes);
  for (const auto& [key, content] : artifacts) {
    const auto [end, ignored] =
        std::mismatch(prefix.begin(), prefix.end(), key.text.begin(), key.text.end());
    prefix.erase(end, prefix.end());
  }
  return prefix;
}

}  // namespace

ArtifactPack::ArtifactPack(std::string path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ < 0 || open()) return;
  count_corrupt();
  ::close(fd_);
  fd_ = -1;
  prefix_.clear();
  index_.clear();
}

ArtifactPack::~ArtifactPack() {
  if (fd_ >= 0) ::close(fd_);
}

bool ArtifactPack::open() {
  struct stat info {};
  Header header;
  if (::fstat(fd_, &info) != 0 || !read_all(fd_, &header, sizeof header)) return false;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return false;
  const auto size = static_cast<uint64_t>(info.st_size);
  if (header.file_bytes != size || header.prefix_bytes > kMaxPrefixBytes ||
      header.entries > kMaxEntries ||
      sizeof header + header.prefix_bytes + header.entries * sizeof(Entry) > size) {
    return false;
  }
  prefix_.resize(header.prefix_bytes);
  index_.resize(header.entries);
  if (!read_all(fd_, prefix_.data(), prefix_.size()) ||
      !read_all(fd_, index_.data(), index_.size() * sizeof(Entry))) {
    return false;
  }
  return checksum(header, prefix_, index_) == header.checksum;
}

void ArtifactPack::count_corrupt() {
  static Counter& corrupt = counter("Store.Corrupt");
  corrupt.add();
  ++corrupt_;
}

std::optional<std::string> ArtifactPack::load(const ArtifactKey& key) {
  const auto found =
      std::lower_bound(index_.begin(), index_.end(), key.hash,
                       [](const Entry& entry, const Hash128& hash) { return entry.hash < hash; });
  if (found == index_.end() || found->hash != key.hash) {
    ++misses_;
    return std::nullopt;
  }
  std::string body(size_t{found->key_bytes} + found->content_bytes, '\0');
  if (!read_all_at(fd_, body.data(), body.size(), found->offset) ||
      hash128(body) != found->checksum) {
    count_corrupt();
    ++misses_;
    return std::nullopt;
  }
  const std::string_view text = key.text;
  if (!text.starts_with(prefix_) ||
      text.substr(prefix_.size()) != std::string_view(body).substr(0, found->key_bytes)) {
    ++misses_;  // another key with the same hash
    return std::nullopt;
  }
  ++hits_;
  body.erase(0, found->key_bytes);
  return body;
}

bool write_artifact_pack(const std::string& path,
                         std::vector<std::pair<ArtifactKey, std::string>> artifacts) {
  std::sort(artifacts.begin(), artifacts.end(),
            [](const auto& a, const auto& b) { return a.first.hash < b.first.hash; });
  const std::string prefix = common_prefix(artifacts);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.prefix_bytes = prefix.size();
  header.entries = artifacts.size();
  uint64_t end = sizeof header + prefix.size() + artifacts.size() * sizeof(Entry);
  std::vector<Entry> index;
  std::string bodies;
  for (const auto& [key, content] : artifacts) {
    NEURON_CHECK(index.empty() || index.back().hash != key.hash);
    const std::string body = key.text.substr(prefix.size()) + content;
    index.push_back({.hash = key.hash,
                     .checksum = hash128(body),
                     .offset = end,
                     .key_bytes = static_cast<uint32_t>(key.text.size() - prefix.size()),
                     .content_bytes = static_cast<uint32_t>(content.size())});
    end += body.size();
    bodies += body;
  }
  header.file_bytes = end;
  header.checksum = checksum(header, prefix, index);

  const std::string temporary = path + ".tmp-" + std::to_string(::getpid());
  bool written = false;
  {
    File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    written = file && write_all(file.fd(), &header, sizeof header) &&
              write_all(file.fd(), prefix.data(), prefix.size()) &&
              write_all(file.fd(), index.data(), index.size() * sizeof(Entry)) &&
              write_all(file.fd(), bodies.data(), bodies.size());
  }
  if (written && ::rename(temporary.c_str(), path.c_str()) == 0) return true;
  const int reason = errno;
  ::unlink(temporary.c_str());
  errno = reason;
  return false;
}

}  // namespace neuron
