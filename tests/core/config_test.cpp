// SPDX-License-Identifier: Apache-2.0
#include "neuron/base/config.h"

#include <gtest/gtest.h>

#include "neuron/base/error.h"

namespace neuron {
namespace {

TEST(ConfigTest, EmulatedCompileTimeIsTwoNumbers) {
  const EmulatedCompileTime time = parse_emulated_compile_time("200,2.5");
  EXPECT_EQ(time.base_ms, 200);
  EXPECT_EQ(time.per_operation_ms, 2.5);
  EXPECT_EQ(parse_emulated_compile_time("").base_ms, 0);
}

TEST(ConfigTest, BadEmulatedCompileTimesAreNamed) {
  for (const char* text : {"200", "200,", ",20", "a,b", "200,20,5", "-1,2", "nan,1", "1e12,1"}) {
    try {
      parse_emulated_compile_time(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(e.message().find("TORCH_NEURONX_EMULATE_COMPILE_MS"), std::string::npos) << text;
    }
  }
}

}  // namespace
}  // namespace neuron
