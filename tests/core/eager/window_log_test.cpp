// SPDX-License-Identifier: Apache-2.0
//
// The log of windows: what entries hold, when windows share one, what is dropped, and readers that
// work while several streams write.
#include "neuron/eager/window_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/eager_testing.h"

namespace neuron {
namespace {

using test::Session;
using test::Tensor;

class WindowLogTest : public ::testing::Test {
 protected:
  // One window of the session's records, all run alone.
  void log_all(WindowLogWriter& writer, const char* ended) {
    writer.start(ended);
    for (size_t i = 0; i < s.window().size(); ++i) {
      writer.add_ops(s.window(), i, i + 1);
      writer.step(i, HowRun::kSingle, WhySingle::kFirstSighting);
    }
    writer.finish();
  }

  Session s;
  WindowLog log;
  WindowLogWriter writer{log, 2, 7};
};

TEST_F(WindowLogTest, KeepsOperationsWithGeometryAndSteps) {
  const Tensor x = s.empty({4, 8}), w = s.empty({8}, DType::kBFloat16), y = s.empty({4, 8});
  s.pointwise(LoweredOp::kMul, {x, w}, y);
  s.pointwise(LoweredOp::kRelu, {y}, y);
  s.host([] {}, {x}, {y});
  const WindowForm& form = s.form();
  writer.start("HostRead");
  writer.add_ops(s.window(), 0, 3);
  writer.planned(true);
  writer.step(form, {0, 1}, HowRun::kFused, WhySingle::kNone, nullptr);
  writer.step(2, HowRun::kHost, WhySingle::kNone);
  writer.finish();

  const auto windows = log.last();
  ASSERT_EQ(windows.size(), 1u);
  const LoggedWindow& window = windows[0];
  EXPECT_EQ(window.number, 1u);
  EXPECT_EQ(window.device, 2);
  EXPECT_EQ(window.stream, 7);
  EXPECT_STREQ(window.ended, "HostRead");
  EXPECT_TRUE(window.planned);
  EXPECT_TRUE(window.plan_hit);
  ASSERT_EQ(window.ops.size(), 3u);
  EXPECT_STREQ(window.ops[0].name, "aten::mul");
  const auto operands = window.operands(window.ops[0]);
  ASSERT_EQ(operands.size(), 3u);
  EXPECT_TRUE(operands[0].output);
  EXPECT_EQ(operands[1].sizes, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(operands[2].sizes, (std::vector<int64_t>{8}));
  EXPECT_EQ(operands[2].dtype, DType::kBFloat16);
  EXPECT_FALSE(window.operands(window.ops[2])[0].sized);
  ASSERT_EQ(window.steps.size(), 2u);
  EXPECT_EQ(window.steps[0].count, 2u);
  EXPECT_EQ(window.step_ops, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_EQ(window.ticks, window.steps[0].ticks + window.steps[1].ticks);
}

TEST_F(WindowLogTest, StepsNameRecordsOfALaterPiece) {
  const Tensor x = s.empty({3});
  for (int i = 0; i < 4; ++i) s.pointwise(LoweredOp::kNeg, {x}, x);
  writer.start("Cut");
  writer.add_ops(s.window(), 1, 3);  // the window began behind another one
  writer.step(1, HowRun::kSingle, WhySingle::kAlone);
  writer.add_ops(s.window(), 3, 4);
  writer.step(3, HowRun::kSingle, WhySingle::kAlone);
  writer.finish();
  EXPECT_EQ(log.last()[0].step_ops, (std::vector<uint32_t>{0, 2}));
}

TEST_F(WindowLogTest, WindowsOfOneOperationShareAnEntry) {
  const Tensor x = s.empty({5}), y = s.empty({6});
  s.pointwise(LoweredOp::kNeg, {x}, x);
  for (int i = 0; i < 3; ++i) log_all(writer, "Strict");
  s.window().clear();
  s.pointwise(LoweredOp::kExp, {y}, y);
  log_all(writer, "Strict");
  log_all(writer, "HostRead");  // another reason
  WindowLogWriter other(log, 0, 0);
  log_all(other, "HostRead");  // another stream

  const auto windows = log.last();
  ASSERT_EQ(windows.size(), 3u);
  EXPECT_EQ(windows[0].windows, 4u);
  EXPECT_EQ(windows[0].number, 1u);
  ASSERT_EQ(windows[0].ops.size(), 4u);
  EXPECT_EQ(windows[0].operands(windows[0].ops[2])[0].sizes, (std::vector<int64_t>{5}));
  EXPECT_EQ(windows[0].operands(windows[0].ops[3])[0].sizes, (std::vector<int64_t>{6}));
  EXPECT_EQ(windows[0].step_ops, (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(windows[1].number, 5u);
  EXPECT_EQ(windows[2].number, 6u);
}

TEST_F(WindowLogTest, OldEntriesMakeRoom) {
  const Tensor x = s.empty({2});
  for (int i = 0; i < 2; ++i) s.pointwise(LoweredOp::kNeg, {x}, x);
  const size_t total = WindowLog::kWindows + 10;
  for (size_t i = 0; i < total; ++i) log_all(writer, "Cut");
  auto windows = log.last();
  ASSERT_EQ(windows.size(), WindowLog::kWindows);
  EXPECT_EQ(windows.front().number, 11u);
  EXPECT_EQ(windows.back().number, total);
  windows = log.last(2);
  ASSERT_EQ(windows.size(), 2u);
  EXPECT_EQ(windows.front().number, total - 1);
  log.clear();
  EXPECT_TRUE(log.last().empty());
}

TEST_F(WindowLogTest, TimesAreThoseOfAClock) {
  s.host([] {}, {}, {});
  const auto begin = std::chrono::steady_clock::now();
  writer.start("HostOp");
  writer.add_ops(s.window(), 0, 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  writer.step(0, HowRun::kHost, WhySingle::kNone);
  const std::chrono::duration<double> bound = std::chrono::steady_clock::now() - begin;
  writer.finish();
  const double seconds = WindowLog::seconds(log.last()[0].ticks);
  EXPECT_GE(seconds, 0.0199);
  EXPECT_LE(seconds, bound.count() * 1.01);
}

TEST_F(WindowLogTest, OffKeepsNothing) {
  const Tensor x = s.empty({2});
  s.pointwise(LoweredOp::kNeg, {x}, x);
  log.set_enabled(false);
  log_all(writer, "Cut");
  EXPECT_TRUE(log.last().empty());
  log.set_enabled(true);
  log_all(writer, "Cut");
  EXPECT_EQ(log.last().size(), 1u);
}

TEST_F(WindowLogTest, LongListsOfTensorsAreShortened) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 40; ++i) tensors.push_back(s.empty({1}));
  s.host([] {}, tensors, tensors);
  writer.start("HostOp");
  writer.add_ops(s.window(), 0, 1);
  writer.step(0, HowRun::kHost, WhySingle::kNone);
  writer.finish();
  const auto windows = log.last();
  const auto operands = windows[0].operands(windows[0].ops[0]);
  EXPECT_GT(operands.size(), 4u);
  EXPECT_LT(operands.size(), 40u);
}

TEST_F(WindowLogTest, ReadersSeeWholeWindowsWhileStreamsWrite) {
  const Tensor x = s.empty({3});
  for (int i = 0; i < 3; ++i) s.pointwise(LoweredOp::kNeg, {x}, x);
  std::atomic<int> writing{2};
  const auto write = [&](int device) {
    WindowLogWriter own(log, device, device);
    for (int i = 0; i < 400; ++i) {
      own.start("Cut");
      own.add_ops(s.window(), 0, device == 0 ? 1 : 3);
      own.step(0, HowRun::kSingle, WhySingle::kAlone);
      own.finish();
    }
    --writing;
  };
  std::thread a(write, 0), b(write, 1);
  while (writing > 0) {
    for (const LoggedWindow& w : log.last(16)) {
      ASSERT_EQ(w.ops.size(), w.device == 0 ? w.windows : 3u);
      for (const LoggedOp& op : w.ops) ASSERT_EQ(w.operands(op).size(), 2u);
    }
    log.set_enabled(true);
  }
  a.join();
  b.join();
  const auto windows = log.last(1);
  EXPECT_EQ(windows[0].number + windows[0].windows - 1, 800u);
}

}  // namespace
}  // namespace neuron
