// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/codegen/codegen_api.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
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

std::unique_ptr<llvm::TargetMachine> make_target_machine(const std::string& features) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
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

std::string compile(std::string_view text, const std::string& features, uint32_t flags) {
  LoopNest nest = parse_loop_nest(text);
  verify(nest);
  // Building one costs as much as a small kernel.
  thread_local std::map<std::string, std::unique_ptr<llvm::TargetMachine>> machines;
  std::unique_ptr<llvm::TargetMachine>& machine = machines[features];
  if (machine == nullptr) machine = make_target_machine(features);
  llvm::LLVMContext context;
  llvm::Module module("kernel", context);
  module.setTargetTriple(llvm::Triple(kTriple));
  module.setDataLayout(machine->createDataLayout());
  NestEmitter(nest, module, parse_features(features)).run();

  if (flags & NEURON_CODEGEN_VERIFY) {
    std::string broken;
    llvm::raw_string_ostream message(broken);
    if (llvm::verifyModule(module, &message))
      throw Error(ErrorCode::kInternal, "generated IR is invalid: " + broken);
  }
  llvm::SmallString<0> output;
  llvm::raw_svector_ostream stream(output);
  if (flags & NEURON_CODEGEN_EMIT_IR) {
    module.print(stream, nullptr);
    return output.str().str();
  }
  llvm::legacy::PassManager passes;
  auto kind = flags & NEURON_CODEGEN_EMIT_ASSEMBLY ? llvm::CodeGenFileType::AssemblyFile
                                                   : llvm::CodeGenFileType::ObjectFile;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, kind))
    throw Error(ErrorCode::kInternal, "the target cannot emit objects");
  passes.run(module);
  return output.str().str();
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
