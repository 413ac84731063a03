// SPDX-License-Identifier: Apache-2.0
//
// Whole reads and writes on file descriptors, interrupted or not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace neuron {

// A descriptor that closes itself; -1 is none.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  const int fd_;
};

// False if the file ends before, or at an error (errno).
bool read_all(int fd, void* to, size_t bytes);
bool read_all_at(int fd, void* to, size_t bytes, uint64_t offset);
bool write_all(int fd, const void* from, size_t bytes);

}  // namespace neuron
