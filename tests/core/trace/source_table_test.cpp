// SPDX-License-Identifier: Apache-2.0
#include "neuron/trace/source_table.h"

#include <gtest/gtest.h>

namespace neuron {
namespace {

TEST(SourceTableTest, TextsHaveOneIdEach) {
  const SourceId a = intern_source("table.py:1 in f"), b = intern_source("table.py:2 in f");
  EXPECT_NE(a, b);
  EXPECT_NE(a, 0u);
  EXPECT_EQ(a, intern_source("table.py:1 in f"));
  EXPECT_EQ(source_text(a), "table.py:1 in f");
  EXPECT_EQ(source_text(0), "");
  EXPECT_EQ(source_text(1u << 30), "");
  EXPECT_FALSE(source_lines(a).backward);
}

TEST(SourceTableTest, ABackwardOperationHasTwoLines) {
  const SourceId forward = intern_source("model.py:31 in forward");
  const SourceId call = intern_source("train.py:12 in step");
  const SourceId pair = intern_backward(forward, call);
  EXPECT_EQ(pair, intern_backward(forward, call));
  EXPECT_EQ(source_text(pair), "model.py:31 in forward (backward: train.py:12 in step)");
  EXPECT_EQ(source_text(intern_backward(forward, 0)), "model.py:31 in forward (backward)");
  const SourceLines lines = source_lines(pair);
  EXPECT_TRUE(lines.backward);
  EXPECT_EQ(lines.line, "model.py:31 in forward");
  EXPECT_EQ(lines.backward_call, "train.py:12 in step");
}

TEST(SourceTableTest, PairsOfPairsKeepThePlainLines) {
  const SourceId a = intern_source("pairs.py:1"), b = intern_source("pairs.py:2");
  const SourceId c = intern_source("pairs.py:3");
  const SourceId pair = intern_backward(a, b);
  EXPECT_EQ(intern_backward(pair, c), intern_backward(a, c));
  EXPECT_EQ(intern_backward(c, pair), intern_backward(c, a));
}

}  // namespace
}  // namespace neuron
