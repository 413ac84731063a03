// SPDX-License-Identifier: Apache-2.0
//
// The lists behind shipped_kernels.h, one function a family.
#pragma once

#include "neuron/eager/shipped_collector.h"

namespace neuron {

void ship_pointwise(ShippedCollector& c, LoweredOp op);
void ship_reduction(ShippedCollector& c, LoweredOp op);
void ship_softmax(ShippedCollector& c, LoweredOp op);
void ship_scan(ShippedCollector& c, LoweredOp op);
// shipped_norms.cpp
void ship_layer_norm(ShippedCollector& c, LoweredOp op);
void ship_layer_norm_backward(ShippedCollector& c, LoweredOp op);
void ship_rms_norm(ShippedCollector& c, LoweredOp op);
void ship_rms_norm_backward(ShippedCollector& c, LoweredOp op);
void ship_batch_norm(ShippedCollector& c, LoweredOp op);
void ship_batch_norm_backward(ShippedCollector& c, LoweredOp op);
void ship_group_norm(ShippedCollector& c, LoweredOp op);
void ship_group_norm_backward(ShippedCollector& c, LoweredOp op);
// shipped_generators.cpp
void ship_generator(ShippedCollector& c, LoweredOp op);
void ship_matrix(ShippedCollector& c, LoweredOp op);
void ship_random(ShippedCollector& c, LoweredOp op);
void ship_loss(ShippedCollector& c, LoweredOp op);
// shipped_indexing.cpp
void ship_index_read(ShippedCollector& c, LoweredOp op);
void ship_index_write(ShippedCollector& c, LoweredOp op);
void ship_window_read(ShippedCollector& c, LoweredOp op);
void ship_nll_loss(ShippedCollector& c, LoweredOp op);
void ship_nll_loss_backward(ShippedCollector& c, LoweredOp op);

// Dtypes of model data; all layouts come in these.
inline constexpr DType kModelDtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

}  // namespace neuron
