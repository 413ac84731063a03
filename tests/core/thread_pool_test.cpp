// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace neuron {
namespace {

TEST(IntraOpPool, RunsEveryChunkOnce) {
  for (int threads : {1, 2, 4}) {
    IntraOpPool pool(threads, nullptr);
    EXPECT_EQ(pool.threads(), threads);
    for (int64_t n : {0, 1, 2, 7, 1000}) {
      std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
      pool.run(n, [&](int64_t i) { hits[static_cast<size_t>(i)].fetch_add(1); });
      for (auto& h : hits) EXPECT_EQ(h.load(), 1);
    }
  }
}

TEST(IntraOpPool, RethrowsTheErrorOfAChunkAfterAllHaveRun) {
  IntraOpPool pool(3, nullptr);
  std::atomic<int> ran{0};
  EXPECT_THROW(pool.run(50,
                        [&](int64_t i) {
                          ran.fetch_add(1);
                          if (i == 13) throw std::runtime_error("chunk");
                        }),
               std::runtime_error);
  EXPECT_EQ(ran.load(), 50);
}

TEST(IntraOpPool, NestedRunsStayOnTheirThread) {
  IntraOpPool pool(3, nullptr);
  std::atomic<int> total{0};
  pool.run(8, [&](int64_t) {
    const auto self = std::this_thread::get_id();
    pool.run(5, [&](int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), self);
      total.fetch_add(1);
    });
  });
  EXPECT_EQ(total.load(), 40);
}

TEST(IntraOpPool, ServesSeveralCallers) {
  IntraOpPool pool(3, nullptr);
  std::vector<std::thread> callers;
  std::atomic<int64_t> total{0};
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        pool.run(10, [&](int64_t i) { total.fetch_add(i); });
      }
    });
  }
  for (std::thread& t : callers) t.join();
  EXPECT_EQ(total.load(), 4 * 100 * 45);
}

}  // namespace
}  // namespace neuron
