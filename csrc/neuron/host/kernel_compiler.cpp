// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/kernel_compiler.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <vector>

#include "neuron/base/error.h"

namespace neuron {

const char* const kFeaturesAvx2 = "+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe";
const char* const kFeaturesAvx512 =
    "+sse4.2,+popcnt,+avx,+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+movbe,"
    "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl";

namespace {

constexpr const char* kLibraryName = "libneuron_codegen.so";

std::string detect_features() {
  __builtin_cpu_init();
  bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi") &&
              __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt") &&
              __builtin_cpu_supports("movbe") && __builtin_cpu_supports("popcnt");
  bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl");
  return avx512 ? kFeaturesAvx512 : avx2 ? kFeaturesAvx2 : "";
}

// Directory of the binary that this function is linked into, with a slash.
std::string own_directory() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&own_directory), &info) == 0 || info.dli_fname == nullptr)
    return "";
  std::string path = info.dli_fname;
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

// The linker's build id note of a shared object, as hexadecimal text; empty if there is none.
std::string read_build_id(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Elf64_Ehdr header;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return "";
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "";
  for (int p = 0; p < header.e_phnum; ++p) {
    Elf64_Phdr segment;
    file.seekg(static_cast<std::streamoff>(header.e_phoff + sizeof segment * p));
    if (!file.read(reinterpret_cast<char*>(&segment), sizeof segment)) return "";
    if (segment.p_type != PT_NOTE || segment.p_filesz > 65536) continue;
    std::vector<char> notes(segment.p_filesz);
    file.seekg(static_cast<std::streamoff>(segment.p_offset));
    if (!file.read(notes.data(), static_cast<std::streamsize>(notes.size()))) return "";
    size_t at = 0;
    while (at + sizeof(Elf64_Nhdr) <= notes.size()) {
      Elf64_Nhdr note;
      std::memcpy(&note, notes.data() + at, sizeof note);
      size_t text = at + sizeof note + ((note.n_namesz + 3u) & ~3u);
      size_t end = text + ((note.n_descsz + 3u) & ~3u);
      if (end > notes.size()) break;
      if (note.n_type == NT_GNU_BUILD_ID) {
        std::string id;
        for (size_t k = 0; k < note.n_descsz; ++k) {
          char hex[3];
          std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned char>(notes[text + k]));
          id += hex;
        }
        return id;
      }
      at = end;
    }
  }
  return "";
}

}  // namespace

const std::string& host_features() {
  static const std::string kFeatures = detect_features();
  return kFeatures;
}

KernelCompiler& KernelCompiler::instance() {
  static KernelCompiler* compiler = new KernelCompiler;  // leaks on purpose: used until the end
  return *compiler;
}

void KernelCompiler::set_library_path(std::string path) {
  std::lock_guard lock(mutex_);
  if (compile_ != nullptr && path != path_)
    throw Error(ErrorCode::kInvalidArgument, "the code generator is loaded already");
  path_ = std::move(path);
  build_id_.clear();
}

std::string KernelCompiler::build_id() {
  std::lock_guard lock(mutex_);
  if (path_.empty()) path_ = own_directory() + kLibraryName;
  if (build_id_.empty()) build_id_ = read_build_id(path_);
  return build_id_;
}

std::string KernelCompiler::library_directory() {
  std::lock_guard lock(mutex_);
  if (path_.empty()) path_ = own_directory() + kLibraryName;
  return path_.substr(0, path_.rfind('/') + 1);
}

void KernelCompiler::load() {
  if (compile_ != nullptr) return;
  if (path_.empty()) path_ = own_directory() + kLibraryName;
  void* library = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    throw Error(ErrorCode::kExecution,
                std::string("the code generator cannot be loaded: ") + dlerror());
  auto api = reinterpret_cast<decltype(&neuron_codegen_api)>(dlsym(library, "neuron_codegen_api"));
  if (api == nullptr || api() != NEURON_CODEGEN_API)
    throw Error(ErrorCode::kExecution, path_ + " belongs to another version of this package");
  free_ = reinterpret_cast<decltype(free_)>(dlsym(library, "neuron_codegen_free"));
  compile_ = reinterpret_cast<decltype(compile_)>(dlsym(library, "neuron_codegen_compile"));
  NEURON_CHECK(free_ != nullptr && compile_ != nullptr);
}

std::string KernelCompiler::compile(std::string_view text, const std::string& features,
                                    uint32_t flags) {
  {
    std::lock_guard lock(mutex_);
    load();
  }
  NeuronCodegenBuffer buffer{nullptr, 0};
  int failed = compile_(text.data(), text.size(), features.c_str(), flags, &buffer);
  std::string bytes;
  if (buffer.data != nullptr) bytes.assign(buffer.data, buffer.size);
  free_(&buffer);
  if (failed != 0) throw Error(ErrorCode::kExecution, "code generation failed: " + bytes);
  return bytes;
}

}  // namespace neuron
