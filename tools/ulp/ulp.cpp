// SPDX-License-Identifier: Apache-2.0
//
// Checks the generated math functions against long double libm and prints one table row each.
//
//   ulp LIBRARY [STEP] [FUNCTION...]
//
// LIBRARY is libneuron_codegen.so. One-argument float32 functions run over every STEP-th bit
// pattern (default 1: all 2^32, some minutes a function on one core; a prime such as 997 gives a
// sample). Exit status 1 if a bound of docs/numerics.md is exceeded, or a special value is wrong.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "core/codegen/math_functions.h"
#include "neuron/host/kernel_compiler.h"
#include "neuron/host/kernel_object.h"

namespace neuron::ulp {
namespace {

struct Row {
  double worst = 0;
  float worst_at = 0;
  uint64_t special_errors = 0;
  float special_at = 0;
  uint64_t checked = 0;
};

Row check(const Function& f, uint32_t step) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int in = b.operand(DType::kFloat32, {Stride::kUnit});
  int out = b.operand(DType::kFloat32, {Stride::kUnit});
  b.store(out, b.unary(f.op, b.load(in)));
  KernelObject object(KernelCompiler::instance().compile(to_text(b.finish()), host_features()));
  constexpr int64_t kBlock = 65536;
  std::vector<float> x(kBlock), y(kBlock);
  Row row;
  uint64_t next = 0;
  while (next < (uint64_t{1} << 32)) {
    int64_t count = 0;
    for (; count < kBlock && next < (uint64_t{1} << 32); ++count, next += step)
      x[count] = std::bit_cast<float>(static_cast<uint32_t>(next));
    run(object, x.data(), y.data(), count);
    for (int64_t k = 0; k < count; ++k) {
      double e = error_in_ulp(f.reference(x[k]), y[k]);
      ++row.checked;
      if (std::isinf(e)) {
        if (row.special_errors++ == 0) row.special_at = x[k];
      } else if (e > row.worst) {
        row.worst = e;
        row.worst_at = x[k];
      }
    }
  }
  return row;
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: ulp LIBRARY [STEP] [FUNCTION...]\n");
    return 2;
  }
  KernelCompiler::instance().set_library_path(argv[1]);
  uint32_t step = argc > 2 ? static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10)) : 1;
  if (step == 0) step = 1;
  bool good = true;
  std::printf("| function | max ULP | at | bound | checked | wrong special values |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (const Function& f : kFunctions) {
    bool wanted = argc <= 3;
    for (int a = 3; a < argc; ++a) wanted |= std::strcmp(argv[a], name(f.op)) == 0;
    if (!wanted) continue;
    Row row = check(f, step);
    std::printf("| %s | %.3f | %.9g | %.2f | %llu | %llu", name(f.op), row.worst, row.worst_at,
                f.bound, static_cast<unsigned long long>(row.checked),
                static_cast<unsigned long long>(row.special_errors));
    if (row.special_errors > 0) std::printf(" (first %.9g)", row.special_at);
    std::printf(" |\n");
    std::fflush(stdout);
    good &= row.worst <= f.bound && row.special_errors == 0;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace neuron::ulp

int main(int argc, char** argv) {
  try {
    return neuron::ulp::main(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "ulp: %s\n", e.what());
    return 2;
  }
}
