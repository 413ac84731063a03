// SPDX-License-Identifier: Apache-2.0
//
// KernelObject: the machine code of one compiled loop nest, linked into this process.
//
// Reads the relocatable ELF object that the code generator writes, copies its sections into one
// mapping, resolves relocations, and makes the mapping executable and read-only. Needs no LLVM, so
// a process that finds its kernels in the store never loads the generator. External symbols are the
// few libm functions that kernels may call; anything else is an error.
//
// Immutable after construction; entries may run on any number of threads. The code lives as long as
// the object: keep a shared_ptr while a kernel runs.
//
//   KernelObject object(bytes);          // throws kExecution for anything malformed
//   object.entry(0)(&args, begin, end);
#pragma once

#include <cstddef>
#include <string_view>

#include "neuron/host/kernel_args.h"

namespace neuron {

class KernelObject {
 public:
  explicit KernelObject(std::string_view elf);
  ~KernelObject();
  KernelObject(const KernelObject&) = delete;
  KernelObject& operator=(const KernelObject&) = delete;

  int phases() const { return entries_[1] == nullptr ? 1 : 2; }
  KernelEntry entry(int phase) const { return entries_[phase]; }
  size_t bytes() const { return size_; }  // of the mapping

 private:
  void* memory_ = nullptr;
  size_t size_ = 0;
  KernelEntry entries_[2] = {nullptr, nullptr};
};

}  // namespace neuron
