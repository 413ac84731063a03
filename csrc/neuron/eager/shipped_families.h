// SPDX-License-Identifier: Apache-2.0
//
// The lists behind shipped_kernels.h, one function a family.
#pragma once

#include "neuron/eager/shipped_collector.h"

namespace neuron {

void ship_pointwise(ShippedCollector& c, LoweredOp op);
void ship_reduction(ShippedCollector& c, LoweredOp op);
void ship_softmax(ShippedCollector& c, LoweredOp op);
void ship_layer_norm(ShippedCollector& c, LoweredOp op);
void ship_layer_norm_backward(ShippedCollector& c, LoweredOp op);

// Dtypes of model data; all layouts come in these.
inline constexpr DType kModelDtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

}  // namespace neuron
