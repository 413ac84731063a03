// SPDX-License-Identifier: Apache-2.0
//
// Config: every environment variable that the product reads, once, typed, with its default and its
// meaning. `docs/environment.md` is generated from this list. Values are read at the first call of
// `config()` (import of the package) and never change afterwards; nothing else calls getenv.
//
//   if (config().launch_blocking) stream.synchronize();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace neuron {

// X(member, type, variable, default, description); types: bool, int64_t, double, std::string.
// clang-format off
#define NEURON_CONFIG(X)                                                                            \
  X(num_cores, int64_t, "NEURON_RT_NUM_CORES", 4,                                                   \
    "Number of virtual NeuronCores")                                                                \
  X(visible_cores, std::string, "NEURON_RT_VISIBLE_CORES", "",                                      \
    "Cores that this process sees, as a list of numbers and ranges such as `0,2-3`; "               \
    "takes precedence over NEURON_RT_NUM_CORES")                                                    \
  X(virtual_hbm_gb, double, "TORCH_NEURONX_VIRTUAL_HBM_GB", 24.0,                                   \
    "Memory of one virtual core in GiB; the share of the machine's or container's memory "          \
    "bounds it as well")                                                                            \
  X(num_threads, int64_t, "TORCH_NEURONX_NUM_THREADS", 0,                                           \
    "Threads of the intra-op pool, the executing thread included; 0 takes OMP_NUM_THREADS or the "  \
    "number of usable processors")                                                                  \
  X(omp_num_threads, int64_t, "OMP_NUM_THREADS", 0,                                                 \
    "Read as the default of TORCH_NEURONX_NUM_THREADS")                                             \
  X(launch_blocking, bool, "NEURON_LAUNCH_BLOCKING", false,                                         \
    "Every operation runs to its end before its call returns")                                      \
  X(eager_mode, std::string, "TORCH_NEURONX_EAGER_MODE", "adaptive",                                \
    "Lowered operators: `adaptive` fuses windows of operations, `strict` runs each alone; both "    \
    "give the same bits")                                                                           \
  X(fallback, std::string, "TORCH_NEURONX_FALLBACK", "allow",                                       \
    "What an operator without a kernel does: `allow` runs it on the host, `warn` warns once per "    \
    "operator as well, `error` raises")                                                             \
  X(enable_stack_trace, bool, "TORCH_NEURONX_ENABLE_STACK_TRACE", true,                             \
    "Keep the user's source line of every operation for errors and reports")                        \
  X(max_inflight_ops, int64_t, "TORCH_NEURONX_MAX_INFLIGHT_OPS", 4096,                              \
    "Operations that may be queued on one stream before recording waits")                           \
  X(max_inflight_mb, int64_t, "TORCH_NEURONX_MAX_INFLIGHT_MB", 4096,                                \
    "Bytes that queued operations may keep alive on one stream, in MiB, before recording waits")    \
  X(cache_dir, std::string, "TORCH_NEURONX_NEFF_CACHE_DIR", "",                                     \
    "Directory of the persistent kernel cache; empty: a `torchneuron` folder in the user's cache "  \
    "directory (XDG_CACHE_HOME or ~/.cache)")                                                       \
  X(cache_disable, bool, "TORCH_NEURONX_DISABLE_NEFF_CACHE", false,                                 \
    "No persistent kernel cache")                                                                   \
  X(cache_max_mb, int64_t, "TORCH_NEURONX_CACHE_MAX_SIZE_MB", 1024,                                 \
    "Size limit of the persistent kernel cache in MiB; least recently used entries go first")       \
  X(compile_workers, int64_t, "TORCH_NEURONX_COMPILE_WORKERS", 0,                                   \
    "Compiles that run side by side in the background; 0: one, 4 while a compiler is emulated")     \
  X(emulate_compile_ms, std::string, "TORCH_NEURONX_EMULATE_COMPILE_MS", "",                        \
    "Emulates a target with a slow compiler, `BASE,PER_OP`: a window runs no sooner than BASE + "   \
    "PER_OP x operations milliseconds after its compile began; empty: off. Values do not change")   \
  X(emulate_launch_us, double, "TORCH_NEURONX_EMULATE_LAUNCH_US", 0,                                \
    "Emulates a target whose every launch takes this many microseconds")                            \
  X(dump_dir, std::string, "TORCH_NEURONX_DUMP_DIR", "",                                            \
    "Directory for the operations, IR, loop nests and LLVM IR of every new plan; empty: none")      \
  X(disable_fallback_execution, bool, "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", true,             \
    "A graph of torch.compile that cannot be compiled raises; 0 runs it eagerly. The compile "      \
    "option `fallback_execution` takes precedence")                                                 \
  X(disable_cpu_autocopy, bool, "TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY", false,                 \
    "A CPU tensor with dimensions among the inputs of a compiled graph is an error")                \
  X(preserve_artifacts, bool, "TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS", false,                \
    "torch.compile writes every graph, and what was generated from it, as text")                    \
  X(debug_dir, std::string, "TORCH_NEURONX_DEBUG_DIR", "/tmp/neuron_backend",                       \
    "Where TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS writes, in a directory per process")        \
  X(log_level, std::string, "TORCH_NEURONX_LOG_LEVEL", "warning",                                   \
    "`debug` adds the traceback when the package cannot be loaded")                                \
  X(xdg_cache_home, std::string, "XDG_CACHE_HOME", "",                                              \
    "Base of the default of TORCH_NEURONX_NEFF_CACHE_DIR")                                          \
  X(home, std::string, "HOME", "",                                                                  \
    "Base of the default of TORCH_NEURONX_NEFF_CACHE_DIR")
// clang-format on

struct Config {
#define NEURON_CONFIG_MEMBER(member, type, variable, def, text) type member = def;
  NEURON_CONFIG(NEURON_CONFIG_MEMBER)
#undef NEURON_CONFIG_MEMBER
};

struct ConfigEntry {
  std::string variable, type, default_value, value, description;
};

// BASE,PER_OP of TORCH_NEURONX_EMULATE_COMPILE_MS; zeros for an empty text. Throws
// kInvalidArgument.
struct EmulatedCompileTime {
  double base_ms = 0, per_operation_ms = 0;
};
EmulatedCompileTime parse_emulated_compile_time(const std::string& text);

// The process's configuration. Throws kInvalidArgument naming the variable if a value cannot be
// parsed. Thread-safe.
const Config& config();

// The list above with current values, in order; the source of docs/environment.md.
std::vector<ConfigEntry> config_entries();

}  // namespace neuron
