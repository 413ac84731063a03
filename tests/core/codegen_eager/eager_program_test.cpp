// SPDX-License-Identifier: Apache-2.0
//
// Random programs over lowered operations: strict and adaptive runs, with any cuts and any state of
// the kernel cache, give the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/codegen_eager/test_kernels.h"
#include "core/eager_testing.h"
#include "neuron/host/half.h"
#include "neuron/trace/counters.h"

namespace neuron {
namespace {

using test::Session;
using test::Sizes;
using test::Tensor;

// The decisions of a program depend on its seed alone, never on values.
class Program {
 public:
  Program(uint32_t seed, int64_t scale) : random_(seed), scale_(scale) {}

  // Runs `length` operations; returns the bytes of all tensors that are left.
  std::string run(EagerExecutor& executor, EagerMode mode, int length, uint32_t cut_seed,
                  bool cut = false) {
    set_eager_mode(mode);
    std::mt19937 cuts(cut_seed);
    session_.before_append = [&](Window& w) {
      if (cut_seed != 0 && cuts() % 12 == 0) test::run_window(w, executor, mode, false, cut);
    };
    positions_ = session_.empty({4096}, DType::kInt64);
    for (int64_t i = 0; i < 4096; ++i) positions_.data<int64_t>()[i] = random_() % 2;
    for (int i = 0; i < 6; ++i)
      live_.push_back(input(i % 3 == 2 ? DType::kBFloat16 : DType::kFloat32));
    for (int i = 0; i < length; ++i) step();
    test::run_window(session_.window(), executor, mode, false, cut);
    std::string bytes;
    for (const Tensor& t : live_) {
      bytes.append(reinterpret_cast<const char*>(t.storage->address()), t.storage->bytes());
    }
    return bytes;
  }

  const std::vector<std::string>& log() const { return log_; }

 private:
  size_t pick(size_t count) { return random_() % count; }
  Tensor any() { return live_[pick(live_.size())]; }

  Sizes shape() {
    static const std::vector<Sizes> shapes = {{4, 6}, {24},   {2, 3, 4}, {6, 4},
                                              {1, 6}, {4, 1}, {},        {3, 4, 2}};
    Sizes s = shapes[pick(shapes.size())];
    for (int64_t& d : s) {
      if (d == 4 || d == 24) d *= scale_;
    }
    return s;
  }

  Tensor input(DType dtype) {
    Tensor t = session_.empty(shape(), dtype);
    for (int64_t i = 0; i < t.numel(); ++i) {
      const float v = static_cast<float>(static_cast<int>(random_() % 4001) - 2000) / 1000.0f;
      if (dtype == DType::kFloat32) t.data<float>()[i] = v;
      if (dtype == DType::kBFloat16) t.data<uint16_t>()[i] = float_to_bf16(v);
    }
    return t;
  }

  static bool broadcasts(const Tensor& a, const Tensor& b, Sizes* out) {
    const size_t rank = std::max(a.sizes.size(), b.sizes.size());
    out->assign(rank, 1);
    for (size_t k = 0; k < rank; ++k) {
      const auto size = [&](const Tensor& t) {
        const size_t r = t.sizes.size();
        return k + r < rank ? int64_t{1} : t.sizes[k + r - rank];
      };
      const int64_t m = size(a), n = size(b);
      if (m != n && m != 1 && n != 1) return false;
      (*out)[k] = std::max(m, n);
    }
    return true;
  }

  void note(const std::string& text) { log_.push_back(text); }

  void keep(Tensor t) {
    live_.push_back(std::move(t));
    while (live_.size() > 10)
      live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(pick(live_.size())));
  }

  void step() {
    switch (pick(18)) {
      case 0:
        return view();
      case 1:
        return reduction();
      case 2:
        return softmax();
      case 3:
        return in_place();
      case 4:
        return host_call();
      case 5:
        return layer_norm();
      case 6:
        return cast();
      case 7: {
        const Tensor x = any(), out = session_.empty(x.sizes, x.dtype);
        note("scalar");
        session_.with_scalar(pick(2) == 0 ? LoweredOp::kMul : LoweredOp::kAdd, x, 0.75, out);
        return keep(out);
      }
      case 8:
        return indexed();
      case 9:
        return window_read();
      case 10:
        return flip();
      case 11:
        return positional();
      default:
        return pointwise();
    }
  }

  static AttributeWriter indexing_words(size_t dim, bool all_dims) {
    AttributeWriter a;
    const auto d = static_cast<int64_t>(dim);
    for (int64_t word : {d, int64_t{all_dims ? 0 : 1}, int64_t{1} << d, int64_t{0}}) {
      a.structural(word);
    }
    return a;
  }

  // A read at computed places, an operation on what it read, and a write back.
  void indexed() {
    const Tensor x = any();
    if (x.sizes.empty() || x.numel() > 1000) return;
    const size_t dim = pick(x.sizes.size());
    if (x.sizes[dim] < 2) return;
    const bool all_dims = pick(2) == 0;
    Sizes sizes = x.sizes;
    sizes[dim] = static_cast<int64_t>(pick(7)) + 1;
    const auto index = [&] {
      Sizes own = all_dims ? sizes : Sizes{sizes[dim]};
      Tensor t = positions_.slice(0, static_cast<int64_t>(pick(50)), 0);
      t.sizes = own;
      t.strides = test::contiguous(own);
      return t;
    };
    const Tensor rows = session_.empty(sizes, x.dtype), changed = session_.empty(sizes, x.dtype);
    note(all_dims ? "gather and scatter" : "index_select and index_add");
    session_.record(all_dims ? LoweredOp::kGather : LoweredOp::kIndexSelect, {x, index()}, {rows},
                    indexing_words(dim, all_dims));
    session_.pointwise(LoweredOp::kTanh, {rows}, changed);
    static constexpr LoweredOp kScatters[] = {LoweredOp::kScatter, LoweredOp::kScatterAdd,
                                              LoweredOp::kScatterMaxOnly};
    static constexpr LoweredOp kWrites[] = {LoweredOp::kIndexCopy, LoweredOp::kIndexAdd};
    const LoweredOp op = all_dims ? kScatters[pick(3)] : kWrites[pick(2)];
    const bool in_place =
        pick(2) == 0 && std::find(x.strides.begin(), x.strides.end(), 0) == x.strides.end();
    const Tensor out = in_place ? x : session_.empty(x.sizes, x.dtype);
    session_.record(op, {x, index(), changed}, {out}, indexing_words(dim, all_dims));
    if (pick(2) == 0) keep(rows);
    if (!in_place) keep(out);
  }

  // A pad of one dim, or two parts of a tensor in the other order.
  void window_read() {
    const Tensor x = any();
    if (x.sizes.empty() || x.numel() > 1000) return;
    const size_t dim = pick(x.sizes.size());
    Sizes sizes = x.sizes;
    AttributeWriter a;
    if (pick(2) == 0) {
      sizes[dim] += 3;
      for (int64_t word : {int64_t{0}, int64_t{1} << dim, int64_t{0}, int64_t{0}})
        a.structural(word);
      a.value(0.5);
      a.value(int64_t{2});
      const Tensor out = session_.empty(sizes, x.dtype);
      note("pad");
      session_.record(LoweredOp::kPad, {x}, {out}, a);
      return keep(out);
    }
    if (x.sizes[dim] < 2) return;
    for (int64_t word : {static_cast<int64_t>(dim), int64_t{0}, int64_t{0}, int64_t{0}})
      a.structural(word);
    const Tensor out = session_.empty(sizes, x.dtype);
    note("roll");
    session_.record(LoweredOp::kCat, {x.slice(dim, 1, sizes[dim] - 1), x.slice(dim, 0, 1)}, {out},
                    a);
    keep(out);
  }

  void flip() {
    const Tensor x = any();
    if (x.sizes.empty()) return;
    const size_t dim = pick(x.sizes.size());
    Tensor from = x;
    from.offset += (x.sizes[dim] - 1) * x.strides[dim];
    from.strides[dim] = -x.strides[dim];
    const Tensor out = session_.empty(x.sizes, x.dtype);
    note("flip");
    session_.pointwise(LoweredOp::kCopy, {from}, out);
    keep(out);
  }

  // Operations whose elements depend on their position.
  void positional() {
    const Tensor x = any();
    const Tensor y = session_.empty(x.sizes, x.dtype);
    AttributeWriter a;
    a.structural(static_cast<int64_t>(x.dtype));
    a.structural(0);
    if (x.sizes.size() >= 2 && pick(2) == 0) {
      note("Tril");
      a.value(static_cast<int64_t>(pick(3)) - 1);
      session_.record(LoweredOp::kTril, {x}, {y}, a);
      return keep(y);
    }
    if (pick(2) == 0) {
      note("Arange");
      a.value(-1.0);
      a.value(0.125);
      session_.record(LoweredOp::kArange, {}, {y}, a);
      return keep(y);
    }
    note("NativeDropout");
    a.value(int64_t{5});
    a.value(static_cast<int64_t>(pick(100)));
    a.value(0.25);
    const Tensor mask = session_.empty(x.sizes, DType::kBool);
    session_.record(LoweredOp::kNativeDropout, {x}, {y, mask}, a);
    keep(y);
  }

  void pointwise() {
    static constexpr LoweredOp kUnary[] = {LoweredOp::kTanh,    LoweredOp::kRelu, LoweredOp::kNeg,
                                           LoweredOp::kSigmoid, LoweredOp::kAbs,  LoweredOp::kGelu};
    static constexpr LoweredOp kBinary[] = {LoweredOp::kAdd, LoweredOp::kSub, LoweredOp::kMul,
                                            LoweredOp::kMaximum};
    const Tensor a = any();
    if (pick(2) == 0) {
      const Tensor out = session_.empty(a.sizes, a.dtype);
      const LoweredOp op = kUnary[pick(std::size(kUnary))];
      note(op_info(op_id(op)).id);
      session_.pointwise(op, {a}, out);
      return keep(out);
    }
    const Tensor b = any();
    Sizes sizes;
    const LoweredOp op = kBinary[pick(std::size(kBinary))];
    if (!broadcasts(a, b, &sizes)) return;
    const DType common = a.dtype == DType::kFloat32 ? a.dtype : b.dtype;
    const Tensor out = session_.empty(sizes, common);
    note(op_info(op_id(op)).id);
    session_.pointwise(op, {a, b}, out, {}, common);
    keep(out);
  }

  void view() {
    Tensor t = any();
    if (t.sizes.empty()) return;
    const size_t d = pick(t.sizes.size());
    switch (pick(3)) {
      case 0:
        t = t.transpose(0, d);
        break;
      case 1:
        if (t.sizes[d] < 2) return;
        t = t.slice(d, 1, t.sizes[d] - 1);
        break;
      default:
        if (!t.is_contiguous()) return;
        t = t.reshape({t.numel()});
    }
    note("view");
    keep(t);
  }

  void reduction() {
    static constexpr LoweredOp kOps[] = {LoweredOp::kSum, LoweredOp::kMean, LoweredOp::kAmax,
                                         LoweredOp::kVar, LoweredOp::kNorm2};
    const Tensor x = any();
    const LoweredOp op = kOps[pick(std::size(kOps))];
    const bool keepdim = pick(2) == 0;
    std::vector<size_t> dims;
    Sizes out;
    const bool all = pick(3) == 0;
    const size_t chosen = x.sizes.empty() ? 0 : pick(x.sizes.size());
    for (size_t d = 0; d < x.sizes.size(); ++d) {
      if (all || d == chosen) {
        dims.push_back(d);
        if (keepdim) out.push_back(1);
      } else {
        out.push_back(x.sizes[d]);
      }
    }
    const Tensor y = session_.empty(out, x.dtype);
    note(op_info(op_id(op)).id);
    session_.reduce(op, x, dims, keepdim, {y},
                    op == LoweredOp::kVar ? std::vector<double>{0.5} : std::vector<double>{});
    keep(y);
  }

  void softmax() {
    const Tensor x = any();
    if (x.sizes.empty()) return;
    const Tensor y = session_.empty(x.sizes, x.dtype);
    note("Softmax");
    session_.softmax(pick(2) == 0 ? LoweredOp::kSoftmax : LoweredOp::kLogSoftmax, {x},
                     static_cast<int64_t>(pick(x.sizes.size())), y);
    keep(y);
  }

  void layer_norm() {
    const Tensor x = any();
    if (x.sizes.empty() || x.dtype != DType::kFloat32) return;
    const int64_t width = x.sizes.back();
    Sizes rows = x.sizes;
    rows.back() = 1;
    const Tensor w = session_.empty({width}), b = session_.empty({width});
    session_.fill(w, 1.25);
    session_.fill(b, -0.5);
    const Tensor y = session_.empty(x.sizes), mean = session_.empty(rows),
                 rstd = session_.empty(rows);
    note("LayerNorm");
    session_.layer_norm(x, w, b, 1, 1e-5, y, mean, rstd);
    if (pick(2) == 0) {
      const Tensor dx = session_.empty(x.sizes), dw = session_.empty({width}),
                   db = session_.empty({width});
      note("LayerNormBackward");
      session_.layer_norm_backward({y, x, mean, rstd, w}, 1, 0b111, {dx, dw, db});
      keep(dx);
      keep(dw);
      keep(db);
    }
    keep(y);
    if (pick(2) == 0) keep(mean);
  }

  void in_place() {
    const Tensor x = any(), other = any();
    Sizes sizes;
    if (!broadcasts(x, other, &sizes) || sizes != x.sizes) return;
    for (int64_t s : x.strides) {
      if (s == 0) return;
    }
    // Operands that overlap the output partly are an error in PyTorch.
    if (other.storage == x.storage &&
        (other.sizes != x.sizes || other.strides != x.strides || other.offset != x.offset)) {
      return;
    }
    note("in-place");
    session_.pointwise(pick(2) == 0 ? LoweredOp::kAdd : LoweredOp::kMul, {x, other}, x, {},
                       x.dtype == DType::kFloat32 ? x.dtype : other.dtype);
  }

  void cast() {
    const Tensor x = any();
    const DType to = x.dtype == DType::kFloat32 ? DType::kBFloat16 : DType::kFloat32;
    const Tensor y = session_.empty(x.sizes, to);
    note("cast");
    session_.pointwise(LoweredOp::kCopy, {x}, y, {}, to);
    keep(y);
  }

  // Copies the bytes of a block.
  void host_call() {
    const Tensor x = any();
    Tensor y = x;
    y.storage = session_.empty({static_cast<int64_t>(x.storage->bytes())}, DType::kUInt8).storage;
    note("host");
    session_.host([from = x.storage->address(), to = y.storage->address(),
                   n = x.storage->bytes()] { std::memcpy(to, from, n); },
                  {x}, {y});
    keep(y);
  }

  std::mt19937 random_;
  const int64_t scale_;
  Session session_;
  std::vector<Tensor> live_;
  Tensor positions_;  // zeros and ones
  std::vector<std::string> log_;
};

class Programs : public ::testing::TestWithParam<int> {};

TEST_P(Programs, StrictAndAdaptiveAreEqualToTheBit) {
  constexpr int kLength = 40;
  const auto first = static_cast<uint32_t>(GetParam()) * 12;
  for (uint32_t seed = first; seed < first + 12; ++seed) {
    EagerExecutor executor(test::kernels());
    for (int64_t scale : {1, 5}) {
      Program reference(seed, scale);
      const std::string expected = reference.run(executor, EagerMode::kStrict, kLength, 0);
      for (uint32_t cut : {0u, 0u, 0u, 17u, 17u, 17u}) {
        Program p(seed, scale);
        const bool equal = p.run(executor, EagerMode::kAdaptive, kLength, cut) == expected;
        test::kernels().wait_idle();
        std::string log;
        for (const std::string& line : p.log()) log += line + " ";
        ASSERT_TRUE(equal) << "seed " << seed << " scale " << scale << " cut " << cut << ": "
                           << log;
      }
    }
  }
  EXPECT_GT(counter("Launch.Fused").value(), 0);
}

TEST(EmulatedPrograms, ASlowCompilerChangesNoBits) {
  using namespace std::chrono_literals;
  EmulatedTarget target({.base = 2ms, .per_operation = 100us, .launch = 10us, .workers = 2});
  for (uint32_t seed = 1000; seed < 1008; ++seed) {
    EagerExecutor plain(test::kernels()), emulated(test::kernels());
    emulated.emulate(target);
    const std::string expected = Program(seed, 1).run(plain, EagerMode::kStrict, 40, 0);
    for (const EagerMode mode :
         {EagerMode::kAdaptive, EagerMode::kAdaptive, EagerMode::kStrict, EagerMode::kAdaptive}) {
      for (const uint32_t cut : {0u, 17u}) {
        EXPECT_TRUE(Program(seed, 1).run(emulated, mode, 40, cut, true) == expected)
            << "seed " << seed << " cut " << cut;
      }
    }
  }
  test::kernels().wait_idle();
  EXPECT_GT(counter("Emulated.CompileWait").value(), 0);
  EXPECT_GT(counter("Emulated.Launch").value(), 0);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Programs, ::testing::Range(0, 8));

}  // namespace
}  // namespace neuron
