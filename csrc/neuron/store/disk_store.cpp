// SPDX-License-Identifier: Apache-2.0
#include "neuron/store/disk_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <vector>

#include "neuron/store/file_io.h"

namespace neuron {

namespace fs = std::filesystem;

namespace {

constexpr char kMagic[8] = {'N', 'R', 'N', 'A', 'R', 'T', '0', '1'};
constexpr const char* kEntrySuffix = ".artifact";
constexpr const char* kTemporaryPrefix = "tmp-";
constexpr int64_t kMaxEntryBytes = int64_t{1} << 30;

struct Header {
  char magic[8];
  uint64_t key_bytes;
  uint64_t content_bytes;
  Hash128 checksum;  // of key and content
};

std::string file_name(const Hash128& hash) { return hash.hex() + kEntrySuffix; }

// The lock byte of an entry; two entries with one byte only protect each other.
off_t lock_byte(const Hash128& hash) { return static_cast<off_t>(hash.low >> 2); }

struct flock byte_lock(const Hash128& hash, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = lock_byte(hash);
  lock.l_len = 1;
  return lock;
}

bool parse_hash(const std::string& name, Hash128* hash) {
  if (name.size() != 32 + std::strlen(kEntrySuffix)) return false;
  if (name.compare(32, std::string::npos, kEntrySuffix) != 0) return false;
  const auto parse = [&name](size_t at, uint64_t* word) {
    const char* first = name.data() + at;
    const auto [end, error] = std::from_chars(first, first + 16, *word, 16);
    return error == std::errc() && end == first + 16;
  };
  return parse(0, &hash->high) && parse(16, &hash->low);
}

}  // namespace

DiskStore::DiskStore(Options options) : options_(std::move(options)) {
  std::error_code ignored;
  fs::create_directories(options_.directory, ignored);
  remove_leftovers();
}

DiskStore::~DiskStore() {
  if (lock_file_ >= 0) ::close(lock_file_);
}

std::string DiskStore::path(const ArtifactKey& key) const {
  return options_.directory + "/" + file_name(key.hash);
}

DiskStore::Stats DiskStore::stats() const {
  return {hits_, misses_, corrupt_, saves_, save_failures_, evictions_};
}

std::optional<std::string> DiskStore::load(const ArtifactKey& key) {
  // An entry that is evicted from here on can still be read to its end.
  File file(::open(path(key).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.fd(), &info) != 0) {
    ++misses_;
    return std::nullopt;
  }
  mark_in_use(key.hash);
  Header header;
  bool sound = read_all(file.fd(), &header, sizeof header) &&
               std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
               header.key_bytes <= static_cast<uint64_t>(kMaxEntryBytes) &&
               header.content_bytes <= static_cast<uint64_t>(kMaxEntryBytes) &&
               sizeof header + header.key_bytes + header.content_bytes ==
                   static_cast<uint64_t>(info.st_size);
  std::string body;
  if (sound) {
    body.resize(header.key_bytes + header.content_bytes);
    sound = read_all(file.fd(), body.data(), body.size()) && hash128(body) == header.checksum;
  }
  if (!sound) {
    ++corrupt_;
    ++misses_;
    ::unlink(path(key).c_str());
    return std::nullopt;
  }
  if (std::string_view(body).substr(0, header.key_bytes) != key.text) {
    ++misses_;  // another key with the same hash
    return std::nullopt;
  }
  ::futimens(file.fd(), nullptr);  // used now; may fail, order suffers only
  ++hits_;
  body.erase(0, header.key_bytes);
  return body;
}

bool DiskStore::save(const ArtifactKey& key, std::string_view content) {
  Header header;
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_bytes = key.text.size();
  header.content_bytes = content.size();
  std::string body = key.text;
  body += content;
  header.checksum = hash128(body);
  std::string temporary = options_.directory + "/" + kTemporaryPrefix + std::to_string(::getpid()) +
                          "-" + std::to_string(next_file_++);
  bool written = false;
  {
    File file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    written = file && write_all(file.fd(), &header, sizeof header) &&
              write_all(file.fd(), body.data(), body.size());
  }
  mark_in_use(key.hash);
  // No fsync: after a power failure the checksum tells.
  if (!written || ::rename(temporary.c_str(), path(key).c_str()) != 0) {
    ::unlink(temporary.c_str());
    ++save_failures_;
    return false;
  }
  ++saves_;
  int64_t size = static_cast<int64_t>(sizeof header + body.size());
  if (options_.max_bytes > 0 && (bytes_ < 0 || (bytes_ += size) > options_.max_bytes)) evict();
  return true;
}

void DiskStore::open_lock_file() {
  if (lock_file_ >= 0) return;
  std::string name = options_.directory + "/in-use";
  lock_file_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock_file_ < 0) lock_file_ = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
}

void DiskStore::mark_in_use(const Hash128& hash) {
  std::lock_guard lock(mutex_);
  if (!used_.insert(hash).second) return;
  open_lock_file();
  if (lock_file_ < 0) return;  // a directory that cannot be written is not evicted from either
  struct flock shared = byte_lock(hash, F_RDLCK);
  ::fcntl(lock_file_, F_OFD_SETLK, &shared);
}

void DiskStore::evict() {
  // One process at a time; the others leave it to that one.
  File turn(::open((options_.directory + "/evicting").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!turn || ::flock(turn.fd(), LOCK_EX | LOCK_NB) != 0) return;
  // A second description of the lock file: it conflicts with the shared locks of every process,
  // this one included.
  File probe(::open((options_.directory + "/in-use").c_str(), O_RDWR | O_CLOEXEC));
  if (!probe) return;
  struct Entry {
    fs::file_time_type used;
    int64_t bytes;
    fs::path path;
    Hash128 hash;
  };
  std::vector<Entry> entries;
  int64_t total = 0;
  std::error_code error;
  for (fs::directory_iterator it(options_.directory, error), end; !error && it != end;
       it.increment(error)) {
    Entry e;
    e.path = it->path();
    if (!parse_hash(e.path.filename().string(), &e.hash)) continue;
    std::error_code gone;
    e.bytes = static_cast<int64_t>(it->file_size(gone));
    e.used = it->last_write_time(gone);
    if (gone) continue;
    total += e.bytes;
    entries.push_back(std::move(e));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  int64_t goal = options_.max_bytes - options_.max_bytes / 8;
  if (total > options_.max_bytes) {
    for (const Entry& e : entries) {
      if (total <= goal) break;
      struct flock exclusive = byte_lock(e.hash, F_WRLCK);
      if (::fcntl(probe.fd(), F_OFD_SETLK, &exclusive) != 0) continue;  // in use
      if (::unlink(e.path.c_str()) == 0) {
        total -= e.bytes;
        ++evictions_;
      }
      struct flock release = byte_lock(e.hash, F_UNLCK);
      ::fcntl(probe.fd(), F_OFD_SETLK, &release);
    }
  }
  bytes_ = total;
}

void DiskStore::remove_leftovers() {
  // Temporary files of a process that died; a living writer needs milliseconds, not an hour.
  auto limit = fs::file_time_type::clock::now() - std::chrono::hours(1);
  std::error_code error;
  for (fs::directory_iterator it(options_.directory, error), end; !error && it != end;
       it.increment(error)) {
    std::error_code gone;
    if (it->path().filename().string().rfind(kTemporaryPrefix, 0) == 0 &&
        it->last_write_time(gone) < limit && !gone)
      fs::remove(it->path(), gone);
  }
}

}  // namespace neuron
