// SPDX-License-Identifier: Apache-2.0
//
// WindowLog: what the last windows were and how they ran: operations with geometry and source line,
// the kernels that they became, why an operation ran alone, why the window ended, and times. It
// feeds `torch_neuronx.explain()`.
//
// Each executor fills a WindowLogWriter, which belongs to the executor role and has no lock, and
// publishes each window when it has run. The log is a ring of kWindows entries behind one mutex
// that is taken once a window. Buffers travel between writer and ring, so a steady state allocates
// nothing. Consecutive windows of one operation that ended for the same reason share an entry.
//
// Names are static strings (op table, host calls, reasons), so that logging copies no text. Entries
// refer to no record, block or kernel.
//
//   WindowLogWriter log(WindowLog::instance(), device, stream);
//   log.start("HostRead");
//   log.add_ops(window, begin, end);                     // what runs next
//   ... run ...; log.step(record, HowRun::kHost, WhySingle::kNone);
//   log.finish();
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "neuron/fuse/form.h"
#include "neuron/runtime/window.h"

namespace neuron {

class Kernel;

enum class HowRun : uint8_t {
  kHost,    // a host call
  kFused,   // one kernel of several operations
  kSingle,  // kernels of one operation each
};
enum class WhySingle : uint8_t {
  kNone,           // host calls and fused kernels
  kAlone,          // nothing to fuse with
  kStrict,         // strict mode
  kFirstSighting,  // the sequence of operations was not seen before
  kNotCompiled,    // the fused kernel is still being compiled
  kCompileFailed,  // the fused kernel cannot be compiled
  kPoisoned,       // an input is the result of a failed operation
};
const char* name(HowRun how);
const char* name(WhySingle why);

struct LoggedTensor {
  DType dtype = DType::kOpaque;
  bool output = false;
  bool sized = false;  // host calls know their geometry themselves
  std::vector<int64_t> sizes;
};

struct LoggedOp {
  const char* name = "";
  SourceId source = 0;
  uint32_t words = 0;  // of LoggedWindow::geometry, where this op's operands begin, outputs first
  uint8_t operands = 0;
};

struct LoggedStep {
  HowRun how = HowRun::kHost;
  WhySingle why = WhySingle::kNone;
  uint32_t first = 0;  // of LoggedWindow::step_ops
  uint32_t count = 0;
  const char* schedule = "";  // of the kernel
  uint64_t kernel = 0;        // low half of its key's hash, 0 if there is none
  int64_t ticks = 0;          // see WindowLog::seconds
};

struct LoggedWindow {
  uint64_t number = 0;   // of the first window of the entry; counts all windows from 1
  uint32_t windows = 1;  // that share the entry
  int device = 0;
  int64_t stream = 0;
  const char* ended = "";
  bool planned = false;   // run by a plan of the whole window
  bool plan_hit = false;  // that was known
  int64_t ticks = 0;      // of all steps
  std::vector<LoggedOp> ops;
  std::vector<LoggedStep> steps;
  std::vector<uint32_t> step_ops;  // indices of `ops`
  std::vector<int64_t> geometry;   // per operand one word of dtype, rank and role, then the sizes

  std::vector<LoggedTensor> operands(const LoggedOp& op) const;
  // Empties the entry, keeps its buffers.
  void reset();
};

class WindowLog {
 public:
  static constexpr size_t kWindows = 128;
  static constexpr size_t kSharedOps = 256;  // windows of one op that share an entry

  static WindowLog& instance();

  // Off: writers stop at their next window; what is in the log stays.
  bool enabled() const { return enabled_.load(std::memory_order_relaxed); }
  void set_enabled(bool on) { enabled_.store(on, std::memory_order_relaxed); }

  // Takes the window's content in exchange for an empty one with used buffers.
  void add(LoggedWindow& window);
  // At most `count` entries, oldest first.
  std::vector<LoggedWindow> last(size_t count = kWindows) const;
  void clear();

  // Ticks are the processor's time stamps: a clock's reading would cost more than all of the rest.
  static double seconds(int64_t ticks);

 private:
  static bool share(LoggedWindow& into, const LoggedWindow& window);

  std::atomic<bool> enabled_{true};
  mutable std::mutex mutex_;
  std::array<LoggedWindow, kWindows> ring_;  // guarded by mutex_
  size_t size_ = 0;                          // guarded by mutex_
  size_t next_ = 0;                          // guarded by mutex_; where the next entry goes
  uint64_t windows_ = 0;                     // guarded by mutex_; windows added so far
};

// Fills the log for one stream. All members belong to the holder of its executor role.
class WindowLogWriter {
 public:
  WindowLogWriter(WindowLog& log, int device, int64_t stream);

  // A window begins to run; `ended` (static) says why it has no more records.
  void start(const char* ended);
  // The records [begin, end) run next; steps name records by their index in `window`.
  void add_ops(const Window& window, size_t begin, size_t end);
  void planned(bool hit);
  // One step has run: a record, or the records of some nodes.
  void step(size_t record, HowRun how, WhySingle why);
  void step(const WindowForm& form, const std::vector<int>& nodes, HowRun how, WhySingle why,
            const Kernel* kernel);
  void finish();

 private:
  void add_step(HowRun how, WhySingle why, size_t first, const Kernel* kernel);
  uint32_t op_of(size_t record) const {
    return static_cast<uint32_t>(record - piece_begin_ + piece_base_);
  }

  WindowLog& log_;
  const int device_;
  const int64_t stream_;
  bool on_ = false;         // the current window is logged
  size_t piece_begin_ = 0;  // records of the piece, and where they are in window_.ops
  size_t piece_base_ = 0;
  int64_t mark_ = 0;  // when the last step ended
  LoggedWindow window_;
};

// How explain() and dumped files call a kernel: 16 digits.
std::string kernel_name(uint64_t hash);

// The operation's name for people: "aten::mul", "aten::mm.out".
const char* record_name(const OpRecord& record);

}  // namespace neuron
