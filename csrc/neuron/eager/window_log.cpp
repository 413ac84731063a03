// SPDX-License-Identifier: Apache-2.0
#include "neuron/eager/window_log.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <utility>

#include "neuron/host/kernel_cache.h"
#include "neuron/lower/op_table.h"

namespace neuron {
namespace {

using Clock = std::chrono::steady_clock;

int64_t ticks() {
#if defined(__x86_64__)
  return static_cast<int64_t>(__builtin_ia32_rdtsc());
#else
  return Clock::now().time_since_epoch().count();
#endif
}

// A pair of readings to compare a later pair with.
struct Origin {
  Clock::time_point time = Clock::now();
  int64_t tick = ticks();
};
const Origin origin;

constexpr size_t kMaxShown = 16;  // shown of one operation; lists of tensors are longer
constexpr int64_t kRankBits = 8;
constexpr int64_t kOutputBit = int64_t{1} << 16;
constexpr int64_t kSizedBit = int64_t{1} << 17;

int64_t header(const TensorRef& ref, bool output, bool sized) {
  return static_cast<int64_t>(ref.dtype) << kRankBits | ref.rank | (output ? kOutputBit : 0) |
         (sized ? kSizedBit : 0);
}

void add_words(std::span<const TensorRef> refs, bool output, bool sized,
               std::vector<int64_t>* words) {
  size_t count = refs.size();
  for (const TensorRef& ref : refs) count += ref.rank;
  const size_t at = words->size();
  words->resize(at + count);
  int64_t* next = words->data() + at;
  for (const TensorRef& ref : refs) {
    *next++ = header(ref, output, sized);
    for (int d = 0; d < ref.rank; ++d) *next++ = ref.sizes[d];
  }
}

}  // namespace

const char* name(HowRun how) {
  switch (how) {
    case HowRun::kHost:
      return "host";
    case HowRun::kFused:
      return "fused";
    case HowRun::kSingle:
      return "single";
  }
  return "?";
}

const char* name(WhySingle why) {
  switch (why) {
    case WhySingle::kNone:
      return "";
    case WhySingle::kAlone:
      return "alone";
    case WhySingle::kStrict:
      return "strict";
    case WhySingle::kFirstSighting:
      return "first sighting";
    case WhySingle::kNotCompiled:
      return "not compiled yet";
    case WhySingle::kCompileFailed:
      return "compile failed";
    case WhySingle::kPoisoned:
      return "poisoned input";
  }
  return "?";
}

const char* record_name(const OpRecord& record) {
  if (is_lowered(record.op)) return op_info(record.op).name;
  return record.host != nullptr ? record.host->name() : "";
}

std::string kernel_name(uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

std::vector<LoggedTensor> LoggedWindow::operands(const LoggedOp& op) const {
  std::vector<LoggedTensor> result;
  auto word = geometry.begin() + op.words;
  for (int i = 0; i < op.operands; ++i) {
    const int64_t h = *word++;
    const int64_t rank = h & ((1 << kRankBits) - 1);
    result.push_back({.dtype = static_cast<DType>(h >> kRankBits & 0xff),
                      .output = (h & kOutputBit) != 0,
                      .sized = (h & kSizedBit) != 0,
                      .sizes = std::vector<int64_t>(word, word + rank)});
    word += rank;
  }
  return result;
}

void LoggedWindow::reset() {
  windows = 1;
  planned = plan_hit = false;
  ticks = 0;
  ops.clear();
  steps.clear();
  step_ops.clear();
  geometry.clear();
}

WindowLog& WindowLog::instance() {
  static auto* log = new WindowLog;  // leaks: executors may outlive static destruction
  return *log;
}

// Appends a window of one operation to an entry of such windows; false if they do not match.
bool WindowLog::share(LoggedWindow& into, const LoggedWindow& window) {
  const auto one_op = [](const LoggedWindow& w) { return w.ops.size() == w.windows && !w.planned; };
  if (!one_op(into) || !one_op(window) || into.ended != window.ended ||
      into.stream != window.stream || into.device != window.device ||
      into.ops.size() >= kSharedOps) {
    return false;
  }
  const auto op = static_cast<uint32_t>(into.ops.size());
  into.ops.push_back(window.ops.front());
  into.ops.back().words = static_cast<uint32_t>(into.geometry.size());
  into.geometry.insert(into.geometry.end(), window.geometry.begin(), window.geometry.end());
  for (LoggedStep step : window.steps) {
    step.first = static_cast<uint32_t>(into.step_ops.size());
    into.step_ops.insert(into.step_ops.end(), step.count, op);
    into.steps.push_back(step);
  }
  into.ticks += window.ticks;
  ++into.windows;
  return true;
}

void WindowLog::add(LoggedWindow& window) {
  std::lock_guard lock(mutex_);
  window.number = ++windows_;
  if (size_ == 0 || !share(ring_[(next_ + kWindows - 1) % kWindows], window)) {
    std::swap(ring_[next_], window);
    next_ = (next_ + 1) % kWindows;
    size_ = std::min(size_ + 1, kWindows);
  }
}

std::vector<LoggedWindow> WindowLog::last(size_t count) const {
  std::lock_guard lock(mutex_);
  count = std::min(count, size_);
  std::vector<LoggedWindow> result;
  result.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    result.push_back(ring_[(next_ + kWindows - count + i) % kWindows]);
  }
  return result;
}

void WindowLog::clear() {
  std::lock_guard lock(mutex_);
  size_ = 0;
}

double WindowLog::seconds(int64_t count) {
  const std::chrono::duration<double> passed = Clock::now() - origin.time;
  const int64_t passed_ticks = ticks() - origin.tick;
  return passed_ticks <= 0
             ? 0
             : static_cast<double>(count) * passed.count() / static_cast<double>(passed_ticks);
}

WindowLogWriter::WindowLogWriter(WindowLog& log, int device, int64_t stream)
    : log_(log), device_(device), stream_(stream) {}

void WindowLogWriter::start(const char* ended) {
  on_ = log_.enabled();
  if (!on_) return;
  window_.reset();
  window_.device = device_;
  window_.stream = stream_;
  window_.ended = ended;
  mark_ = ticks();
}

void WindowLogWriter::add_ops(const Window& window, size_t begin, size_t end) {
  if (!on_) return;
  piece_begin_ = begin;
  piece_base_ = window_.ops.size();
  std::vector<int64_t>& words = window_.geometry;
  for (size_t i = begin; i < end; ++i) {
    const OpRecord& record = window[i];
    const auto outputs = record.outputs.first(std::min(record.outputs.size(), kMaxShown));
    const auto inputs =
        record.inputs.first(std::min(record.inputs.size(), kMaxShown - outputs.size()));
    window_.ops.push_back({.name = record_name(record),
                           .source = record.source,
                           .words = static_cast<uint32_t>(words.size()),
                           .operands = static_cast<uint8_t>(outputs.size() + inputs.size())});
    const bool sized = is_lowered(record.op);
    add_words(outputs, true, sized, &words);
    add_words(inputs, false, sized, &words);
  }
}

void WindowLogWriter::planned(bool hit) {
  window_.planned = true;
  window_.plan_hit = hit;
}

void WindowLogWriter::step(size_t record, HowRun how, WhySingle why) {
  if (!on_) return;
  window_.step_ops.push_back(op_of(record));
  add_step(how, why, window_.step_ops.size() - 1, nullptr);
}

void WindowLogWriter::step(const WindowForm& form, const std::vector<int>& nodes, HowRun how,
                           WhySingle why, const Kernel* kernel) {
  if (!on_) return;
  const size_t first = window_.step_ops.size();
  for (const int n : nodes) {
    const FormNode& node = form.nodes[static_cast<size_t>(n)];
    const uint32_t op = op_of(static_cast<size_t>(node.record_index));
    // The parts of one operation may be in one kernel.
    if (window_.step_ops.size() > first && window_.step_ops.back() == op) continue;
    window_.step_ops.push_back(op);
  }
  add_step(how, why, first, kernel);
}

void WindowLogWriter::add_step(HowRun how, WhySingle why, size_t first, const Kernel* kernel) {
  const int64_t now = ticks();
  const int64_t elapsed = now - mark_;
  mark_ = now;
  window_.ticks += elapsed;
  window_.steps.push_back({.how = how,
                           .why = why,
                           .first = static_cast<uint32_t>(first),
                           .count = static_cast<uint32_t>(window_.step_ops.size() - first),
                           .schedule = kernel != nullptr ? name(kernel->nest().schedule) : "",
                           .kernel = kernel != nullptr ? kernel->key().hash.low : 0,
                           .ticks = elapsed});
}

void WindowLogWriter::finish() {
  if (on_) log_.add(window_);
}

}  // namespace neuron
