// SPDX-License-Identifier: Apache-2.0
//
// The glue's precompiled header: what nearly every file of csrc/torch includes. A file still names
// the headers it uses. Per-operator headers stay out: each concerns few files.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>
