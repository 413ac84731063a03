// SPDX-License-Identifier: Apache-2.0
//
// C interface of libneuron_codegen.so, the only part that links LLVM. Loaded on the first compile
// (host/kernel_compiler.h). All functions are thread-safe and never throw.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NEURON_CODEGEN_API 1

#define NEURON_CODEGEN_EMIT_IR 1u        // flags: LLVM IR as text instead of an object
#define NEURON_CODEGEN_EMIT_ASSEMBLY 2u  // flags: assembler text instead of an object
#define NEURON_CODEGEN_VERIFY 4u         // flags: check the IR first (tests)

// Bytes owned by the library.
typedef struct NeuronCodegenBuffer {
  char* data;
  size_t size;
} NeuronCodegenBuffer;

// NEURON_CODEGEN_API of the library.
__attribute__((visibility("default"))) int neuron_codegen_api(void);

// Compiles the canonical text of one loop nest (host/loop_nest.h) for x86-64 with `features`, a
// list such as "+avx2,+fma", into a relocatable ELF object with the entries of host/kernel_args.h.
// Returns 0 and the object, or 1 and an error text. `out` is freed with neuron_codegen_free.
__attribute__((visibility("default"))) int neuron_codegen_compile(const char* text, size_t size,
                                                                  const char* features,
                                                                  uint32_t flags,
                                                                  NeuronCodegenBuffer* out);

__attribute__((visibility("default"))) void neuron_codegen_free(NeuronCodegenBuffer* buffer);

#ifdef __cplusplus
}
#endif
