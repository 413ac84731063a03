// SPDX-License-Identifier: Apache-2.0
//
// KernelCompiler: the core's side of libneuron_codegen.so. The library is loaded on the first
// compile and stays loaded; it lies beside the binary that holds this code. Thread-safe.
//
//   std::string elf = KernelCompiler::instance().compile(to_text(nest), host_features());
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "neuron/host/codegen/codegen_api.h"

namespace neuron {

// LLVM feature list of this processor, one of three levels: AVX-512 (F, BW, DQ, VL), AVX2 with FMA
// and F16C, or "" for baseline x86-64. Results do not depend on it.
const std::string& host_features();
extern const char* const kFeaturesAvx512;
extern const char* const kFeaturesAvx2;

class KernelCompiler {
 public:
  static KernelCompiler& instance();

  // The object of one nest. Throws kExecution with the generator's text, or if the library is
  // missing or does not fit.
  std::string compile(std::string_view text, const std::string& features, uint32_t flags = 0);

  // Identifies the generator's code: part of the key of everything that it made. Read from the
  // file, without loading it. Empty if there is no library.
  std::string build_id();

  // Where the library lies, with a slash at the end.
  std::string library_directory();

  // Before the first compile: another library file (tools and tests outside the package).
  void set_library_path(std::string path);

 private:
  void load();  // mutex_ held

  std::mutex mutex_;
  std::string path_;                                     // guarded by mutex_
  std::string build_id_;                                 // guarded by mutex_
  decltype(&neuron_codegen_compile) compile_ = nullptr;  // guarded by mutex_, then constant
  decltype(&neuron_codegen_free) free_ = nullptr;        // as compile_
};

}  // namespace neuron
