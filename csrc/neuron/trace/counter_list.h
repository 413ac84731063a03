// SPDX-License-Identifier: Apache-2.0
//
// Every counter of the product with its meaning. `docs/metrics.md` is generated from this list, and
// a test compares it with the names that the sources look up.
#pragma once

// X(name, meaning)
// clang-format off
#define NEURON_COUNTERS(X)                                                                          \
  X("Seal.HostRead", "Queued operations ran because the host needed a value: `.item()`, `.cpu()`, " \
    "printing, a data-dependent shape")                                                             \
  X("Seal.Synchronize", "Queued operations ran because of an explicit wait for a stream or device") \
  X("Seal.Query", "Queued operations ran because somebody asked whether they are done")             \
  X("Seal.DeviceIdle", "The device had nothing to do and took what was queued")                     \
  X("Seal.BackPressure", "Recording waited: too many operations or bytes were queued")              \
  X("Seal.Memory", "Queued operations ran because the memory pool needed their memory")             \
  X("Seal.Blocking", "The call waited because of NEURON_LAUNCH_BLOCKING=1")                         \
  X("Window.Cut", "Windows that ended where their content says so, the same place every time")      \
  X("Window.Size", "Windows that ended at the limit of operations")                                 \
  X("Window.StreamOp", "Windows that ended because an event follows")                               \
  X("Window.Predicted", "Windows of a known sequence of pieces (emulated compiler)")                \
  X("Window.Single",                                                                                \
    "Windows of one operation whose piece is not compiled yet (emulated compiler)")                 \
  X("Window.HostRead", "Windows that ended because the host read a value")                          \
  X("Window.Synchronize", "Windows that ended because somebody waited for the device")              \
  X("Window.Query", "Windows that ended because somebody asked whether the work is done")           \
  X("Window.DeviceIdle", "Windows that ended because the device ran dry")                           \
  X("Window.BackPressure", "Windows that ended because too much was in flight")                     \
  X("Window.Memory", "Windows that ended because the pool needed memory back")                      \
  X("Window.Blocking", "Windows that ended because every call blocks")                              \
  X("Window.Other", "Windows that ended for a reason without a counter of its own")                 \
  X("Emulated.Compile.Needed", "Emulated compiles of operations that were waited for")              \
  X("Emulated.Compile.Growth", "Emulated compiles of longer windows")                               \
  X("Emulated.Compile.Spare", "Emulated compiles that began because a compiler was free")           \
  X("Emulated.CompileWait", "Times that execution waited for an emulated compile")                  \
  X("Emulated.Launch", "Emulated launches")                                                         \
  X("Window.HostStalled", "Windows that ended early because the host recorded nothing for a while") \
  X("Window.HostOp", "Host calls in front of a window, which run at once, each a window of its own") \
  X("Kernel.Hurried",                                                                               \
    "Background compiles raised to normal priority because their kernel was needed")                \
  X("Window.Strict", "Windows of one operation in strict mode")                                     \
  X("Plan.Hits", "Windows whose plan was known")                                                    \
  X("Plan.Misses", "Plans made: a new sequence, pattern of shapes, or use of memory")               \
  X("Plan.SizesDoNotFit", "Known plans passed over because the sizes at hand merge differently")    \
  X("Plan.Evictions", "Plans dropped for newer ones")                                               \
  X("Launch.Fused", "Launches of kernels of several operations")                                    \
  X("Launch.Single", "Launches of kernels of one operation")                                        \
  X("Launch.FusedNotCompiled", "Fused kernels that were not compiled yet (or cannot be): their "    \
    "operations ran one by one")                                                                    \
  X("Kernel.Hit.Process", "Kernels asked for that this process knew already")                       \
  X("Kernel.Hit.Shipped", "Kernels found among those built with the package")                       \
  X("Kernel.Hit.Disk", "Kernels found in the persistent cache")                                     \
  X("Kernel.Miss", "Kernels that nobody had compiled before")                                       \
  X("Kernel.Compile.Background", "Compiles on a background thread")                                 \
  X("Kernel.Compile.Foreground", "Compiles that an operation waited for")                           \
  X("Kernel.Compile.Failed", "Compiles that failed; the operations run one by one for good")        \
  X("Kernel.ForegroundWait", "Waits for a compile that another thread had begun")                   \
  X("Kernel.BadObject", "Stored kernels that could not be loaded; they are compiled again")         \
  X("Kernel.SaveFailed", "Kernels that could not be written to the persistent cache")               \
  X("Store.Evictions", "Entries of the persistent cache that made room for newer ones")             \
  X("Store.Corrupt", "Entries of the persistent cache that were damaged or foreign, and ignored")   \
  X("Memory.AllocRetries", "Allocations that succeeded only after queued work had given memory back") \
  X("Memory.OutOfMemory", "Allocations that failed")                                                \
  X("Memory.ForeignReleaseFailed", "Releases of memory of another library that failed")             \
  X("Memory.HistoryLost", "Entries that the memory history could not keep")                         \
  X("Pinned.LockFailures", "Pinned allocations whose pages the system refused to lock")             \
  X("Dump.Files", "Files written to TORCH_NEURONX_DUMP_DIR")                                        \
  X("Dump.Failed", "Files that could not be written to TORCH_NEURONX_DUMP_DIR")                     \
  X("Dump.Skipped", "Plans not written to TORCH_NEURONX_DUMP_DIR: the limit of files was reached")
// clang-format on
