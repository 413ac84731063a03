// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/codegen/codegen_api.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Triple.h>

#include "neuron/base/error.h"
#include "neuron/host/codegen/nest_emitter.h"
#include "neuron/host/loop_nest.h"

namespace neuron::codegen {
namespace {

constexpr const char* kTriple = "x86_64-unknown-linux-gnu";

bool has(std::string_view features, std::string_view name) {
  for (size_t at = features.find(name); at != std::string_view::npos;
       at = features.find(name, at + 1)) {
    size_t end = at + name.size();
    if (end == features.size() || features[end] == ',') return true;
  }
  return false;
}

TargetFeatures parse_features(std::string_view features) {
  TargetFeatures f;
  f.avx512 = has(features, "+avx512f") && has(features, "+avx512bw") &&
             has(features, "+avx512dq") && has(features, "+avx512vl");
  f.f16c = has(features, "+f16c");
  return f;
}

// Loop strength reduction takes a quarter of a compile and gains nothing: addresses are made in the
// form that x86 takes, and loops are short.
void skip_loop_strength_reduction() {
  auto& options = llvm::cl::getRegisteredOptions();
  const auto found = options.find("disable-lsr");
  if (found != options.end()) found->second->addOccurrence(1, "disable-lsr", "true");
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(const std::string& features) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    skip_loop_strength_reduction();
  });
  llvm::Triple triple(kTriple);
  std::string error;
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (target == nullptr) throw Error(ErrorCode::kInternal, error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;  // no contraction
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, "x86-64", features, options, llvm::Reloc::PIC_,
                                  llvm::CodeModel::Small, llvm::CodeGenOptLevel::Less));
  if (machine == nullptr) throw Error(ErrorCode::kInternal, "no target machine");
  return machine;
}

// A target machine and the passes that write files of one kind. Used again and again by its thread:
// making one costs as much as a small kernel.
class Backend {
 public:
  Backend(const std::string& features, llvm::CodeGenFileType kind)
      : machine_(make_target_machine(features)), stream_(output_) {
    if (machine_->addPassesToEmitFile(passes_, stream_, nullptr, kind))
      throw Error(ErrorCode::kInternal, "the target cannot emit objects");
  }

  const llvm::TargetMachine& machine() const { return *machine_; }

  std::string run(llvm::Module& module) {
    output_.clear();
    passes_.run(module);
    return output_.str().str();
  }

  static Backend& of_thread(const std::string& features, llvm::CodeGenFileType kind) {
    thread_local std::map<std::pair<std::string, llvm::CodeGenFileType>, std::unique_ptr<Backend>>
        backends;
    std::unique_ptr<Backend>& backend = backends[{features, kind}];
    if (backend == nullptr) backend = std::make_unique<Backend>(features, kind);
    return *backend;
  }

 private:
  const std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::SmallString<0> output_;
  llvm::raw_svector_ostream stream_;
  llvm::legacy::PassManager passes_;
};

std::string compile(std::string_view text, const std::string& features, uint32_t flags) {
  LoopNest nest = parse_loop_nest(text);
  verify(nest);
  const auto kind = flags & NEURON_CODEGEN_EMIT_ASSEMBLY ? llvm::CodeGenFileType::AssemblyFile
                                                         : llvm::CodeGenFileType::ObjectFile;
  Backend& backend = Backend::of_thread(features, kind);
  llvm::LLVMContext context;
  llvm::Module module("kernel", context);
  module.setTargetTriple(llvm::Triple(kTriple));
  module.setDataLayout(backend.machine().createDataLayout());
  NestEmitter(nest, module, parse_features(features)).run();

  if (flags & NEURON_CODEGEN_VERIFY) {
    std::string broken;
    llvm::raw_string_ostream message(broken);
    if (llvm::verifyModule(module, &message))
      throw Error(ErrorCode::kInternal, "generated IR is invalid: " + broken);
  }
  if (flags & NEURON_CODEGEN_EMIT_IR) {
    std::string ir;
    llvm::raw_string_ostream stream(ir);
    module.print(stream, nullptr);
    return ir;
  }
  return backend.run(module);
}

void fill(NeuronCodegenBuffer* out, std::string_view bytes) {
  out->data = static_cast<char*>(std::malloc(bytes.size() + 1));
  out->size = out->data == nullptr ? 0 : bytes.size();
  if (out->data == nullptr) return;
  std::memcpy(out->data, bytes.data(), bytes.size());
  out->data[bytes.size()] = '\0';
}

}  // namespace
}  // namespace neuron::codegen

int neuron_codegen_api(void) { return NEURON_CODEGEN_API; }

int neuron_codegen_compile(const char* text, size_t size, const char* features, uint32_t flags,
                           NeuronCodegenBuffer* out) {
  try {
    neuron::codegen::fill(out, neuron::codegen::compile({text, size}, features, flags));
    return 0;
  } catch (const std::exception& e) {
    neuron::codegen::fill(out, e.what());
  } catch (...) {
    neuron::codegen::fill(out, "unknown failure");
  }
  return 1;
}

void neuron_codegen_free(NeuronCodegenBuffer* buffer) {
  std::free(buffer->data);
  buffer->data = nullptr;
  buffer->size = 0;
}
