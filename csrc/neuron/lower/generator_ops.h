// SPDX-License-Identifier: Apache-2.0
//
// Part of the operator table (op_table.h): operations whose elements depend on their position, and
// random ones. Words, S structural and V value:
//
//   generator, matrix, random
//               S0 common dtype, S1 mask of operands that are host scalars, as for pointwise.
//               V  one word per host scalar in operand order (f64 if the common dtype is floating,
//                  else i64); random ones: seed (i64), offset (i64); then the op's own values, each
//                  of the type said on its right.
//               Inputs broadcast to the outputs; all outputs have one shape. Matrix outputs have at
//               least two dims, the last two are the matrices.
//
// Positions are logical: element e of the output in row-major order of its shape, whatever its
// strides. Generators of one dim (arange, linspace) therefore take any shape with their number of
// elements.
//
// Random numbers. Element e draws the four 32-bit words w0 .. w3 of Philox4x32-10 with the 64-bit
// key `seed` and the 128-bit counter (low half e, high half `offset`). So results depend on seed,
// offset and shape alone, never on strides, threads, fusion or vector width. Two recorded
// operations share no words if their offsets differ; a caller raises its offset by at least 1 an
// operation. With u the fraction below (computed in f64 if the common dtype is f64, else in f32):
//
//   fraction    [0, 1): the low d bits of w0 times 2^-d, d = 24 (f32), 11 (f16), 8 (bf16);
//               f64: the low 53 bits of (w1 << 32 | w0) times 2^-53
//   open        (0, 1): (low 23 bits of w0 + 1/2) 2^-23; f64: (low 52 bits of (w1 << 32 | w0) +
//   1/2)
//               2^-52
//   uniform     fraction * (to - from) + from
//   bernoulli   fraction < p, of the dtype that computes (f16, bf16: 24 bits)
//   normal      mean + std * sqrt(-2 log(open)) * cos(2 pi v), v as fraction but from w1 with 24
//               bits; f64: from (w3 << 32 | w2)
//   exponential -log(open) / lambda
//   random      from + ((w1 << 32 | w0) * (to - from) >> 64); to - from is taken modulo 2^64, and 0
//               means all 2^64 values
#pragma once

// clang-format off
#define NEURON_GENERATOR_OPS(X)                                                                    \
  /* common dtype: the output's */                                                                 \
  X(Arange, "aten::arange", Generator, 0, 1, 2)   /* start, step: f64 if the common dtype is       \
                                    floating, else i64; start + e * step in f64 for f32 and f64,   \
                                    f32 for f16 and bf16, i64 */                                   \
  X(Linspace, "aten::linspace", Generator, 0, 1, 2)   /* start, end: as arange's */                \
  X(Tril, "aten::tril", Matrix, 1, 1, 1)          /* diagonal, i64 */                              \
  X(Triu, "aten::triu", Matrix, 1, 1, 1)          /* diagonal, i64 */                              \
  X(Eye, "aten::eye", Matrix, 0, 1, 0)                                                             \
  /* random; common dtype: the output's unless said */                                             \
  X(Uniform, "aten::uniform_", Random, 0, 1, 2)   /* from, to: f64 */                              \
  X(Normal, "aten::normal_", Random, 2, 1, 0)     /* operands mean, std: scalars or tensors */     \
  X(LogNormal, "aten::log_normal_", Random, 0, 1, 2)      /* mean, std: f64 */                     \
  X(Exponential, "aten::exponential_", Random, 0, 1, 1)   /* lambda: f64 */                        \
  X(Cauchy, "aten::cauchy_", Random, 0, 1, 2)     /* median, sigma: f64 */                         \
  X(Geometric, "aten::geometric_", Random, 0, 1, 1)       /* p: f64. Common dtype: the output's if \
                                    floating, else f32 */                                          \
  X(Bernoulli, "aten::bernoulli_", Random, 1, 1, 0)       /* operand p: a scalar (common dtype f32)\
                                    or a tensor (its dtype); output of any dtype */                \
  X(Random, "aten::random_", Random, 0, 1, 2)     /* from, to (exclusive): i64. Common dtype i64,  \
                                    output of any dtype; also randint */                           \
  X(NativeDropout, "aten::native_dropout", Random, 1, 2, 1)   /* p: f64. Outputs: result, mask     \
                                    (bool: fraction < 1 - p); train=True */
// clang-format on
