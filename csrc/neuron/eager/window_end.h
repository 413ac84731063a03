// SPDX-License-Identifier: Apache-2.0
//
// Why windows end, and the counters of it. Reasons are static texts: those below, and the names of
// seal reasons (runtime/window.h) where somebody waits for what is recorded.
#pragma once

namespace neuron::window_end {

inline constexpr const char kCut[] = "Cut";                  // its content says so
inline constexpr const char kSize[] = "Size";                // it is as long as windows may be
inline constexpr const char kHostStalled[] = "HostStalled";  // nothing was recorded for a while
inline constexpr const char kHostOp[] = "HostOp";        // a host call in front, which runs at once
inline constexpr const char kStreamOp[] = "StreamOp";    // an event follows
inline constexpr const char kStrict[] = "Strict";        // every operation is a window
inline constexpr const char kPredicted[] = "Predicted";  // a known sequence of pieces
inline constexpr const char kSingle[] = "Single";  // its piece is not compiled, the operation is

// Adds one to "Window.<reason>", or to "Window.Other" for a reason that is not known here.
void count(const char* reason);

}  // namespace neuron::window_end
