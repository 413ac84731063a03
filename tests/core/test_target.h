// SPDX-License-Identifier: Apache-2.0
//
// Helpers of the core tests: a target with little memory, and host calls from lambdas.
#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "neuron/runtime/block.h"
#include "neuron/runtime/stream.h"
#include "neuron/target/target.h"

namespace neuron::test {

class SmallTarget final : public Target {
 public:
  explicit SmallTarget(int devices = 2, int64_t memory = int64_t{256} << 20)
      : devices_(devices), memory_(memory) {}
  const char* name() const override { return "small"; }
  int device_count() const override { return devices_; }
  DeviceProperties properties(int) const override { return {"small", true, memory_}; }
  void* allocate_segment(int, size_t bytes) override { return std::aligned_alloc(4096, bytes); }
  void free_segment(int, void* address, size_t) override { std::free(address); }
  void prepare_thread() override {}

 private:
  const int devices_;
  const int64_t memory_;
};

class LambdaCall final : public HostCall {
 public:
  explicit LambdaCall(std::function<void()> body) : body_(std::move(body)) {}
  void run() override { body_(); }
  const char* name() const override { return "test::lambda"; }

 private:
  std::function<void()> body_;
};

// Records `body` with the blocks that it reads and writes.
inline uint64_t record(Stream& stream, std::function<void()> body, Block* read = nullptr,
                       Block* written = nullptr, bool overwrites = false) {
  TensorRef in, out;
  in.block = read;
  out.block = written;
  out.overwrites = overwrites;
  RecordRequest request;
  if (read != nullptr) request.inputs = std::span<const TensorRef>(&in, 1);
  if (written != nullptr) request.outputs = std::span<const TensorRef>(&out, 1);
  request.host = std::make_unique<LambdaCall>(std::move(body));
  return stream.record(std::move(request));
}

}  // namespace neuron::test
