// SPDX-License-Identifier: Apache-2.0
#include "neuron/store/file_io.h"

#include <unistd.h>

#include <cerrno>

namespace neuron {
namespace {

// Calls step(place, bytes left, bytes done) until all is done.
template <typename Byte, typename Step>
bool repeat(Byte* place, size_t bytes, Step step) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t count = step(place + done, bytes - done, done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

bool read_all(int fd, void* to, size_t bytes) {
  return repeat(static_cast<char*>(to), bytes,
                [fd](char* at, size_t left, size_t) { return ::read(fd, at, left); });
}

bool read_all_at(int fd, void* to, size_t bytes, uint64_t offset) {
  return repeat(static_cast<char*>(to), bytes, [fd, offset](char* at, size_t left, size_t done) {
    return ::pread(fd, at, left, static_cast<off_t>(offset + done));
  });
}

bool write_all(int fd, const void* from, size_t bytes) {
  return repeat(static_cast<const char*>(from), bytes,
                [fd](const char* at, size_t left, size_t) { return ::write(fd, at, left); });
}

}  // namespace neuron
