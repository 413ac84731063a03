// SPDX-License-Identifier: Apache-2.0
//
// ATen's dispatch stubs with the layout of PyTorch's x86 wheels: their functions take one pointer per
// CPU capability that the wheel was built with. Include this before any header of ATen/native.
#pragma once

#define HAVE_AVX2_CPU_DEFINITION 1
#define HAVE_AVX512_CPU_DEFINITION 1
#include <ATen/native/DispatchStub.h>
