// SPDX-License-Identifier: Apache-2.0
#include "neuron/host/kernel_pack.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/codegen/kernel_testing.h"
#include "neuron/host/kernel_cache.h"

namespace neuron::testing {
namespace {

namespace fs = std::filesystem;

LoopNest power_nest(NestOp op) {
  NestBuilder b(Schedule::kPointwise, 1, 0);
  int in = b.operand(kF32, {kUnit}), out = b.operand(kF32, {kUnit});
  b.store(out, b.unary(op, b.load(in)));
  return b.finish();
}

class KernelPackTest : public ::testing::Test {
 protected:
  KernelPackTest() {
    std::string name = (fs::temp_directory_path() / "kernel-pack-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
    KernelCompiler::instance().set_library_path(NEURON_CODEGEN_LIBRARY);
  }
  ~KernelPackTest() override { fs::remove_all(directory_); }

  std::string path() const { return directory_ + "/kernels.pack"; }

  std::string directory_;
};

TEST(KernelPack, EveryLevelOfThisProcessorHasAName) {
  for (const std::string& features : feature_levels()) EXPECT_NE(kernel_pack_name(features), "");
  EXPECT_EQ(kernel_pack_name("+avx2"), "");
}

TEST_F(KernelPackTest, KeepsWhatTheSameGeneratorHasMade) {
  const LoopNest exp = power_nest(NestOp::kExp), log = power_nest(NestOp::kLog),
                 sqrt = power_nest(NestOp::kSqrt);
  KernelPackReport r = build_kernel_pack({exp, log}, "", path());
  EXPECT_EQ(r.compiled, 2);
  EXPECT_TRUE(r.changed);
  EXPECT_EQ(r.file_bytes, static_cast<int64_t>(fs::file_size(path())));
  r = build_kernel_pack({log, exp}, "", path());  // another order
  EXPECT_EQ(r.compiled, 0);
  EXPECT_EQ(r.kept, 2);
  EXPECT_FALSE(r.changed);
  r = build_kernel_pack({sqrt, log}, "", path());
  EXPECT_EQ(r.compiled, 1);
  EXPECT_EQ(r.kept, 1);
  r = build_kernel_pack({log}, "", path());  // what is no longer wanted leaves
  EXPECT_EQ(r.compiled, 0);
  EXPECT_TRUE(r.changed);
  EXPECT_EQ(ArtifactPack(path()).size(), 1u);
  r = build_kernel_pack({log}, kFeaturesAvx2, path());  // another target
  EXPECT_EQ(r.compiled, 1);
}

TEST_F(KernelPackTest, ADamagedPackIsMadeAnew) {
  build_kernel_pack({power_nest(NestOp::kExp)}, "", path());
  std::ofstream(path(), std::ios::binary | std::ios::trunc) << "damaged";
  EXPECT_EQ(build_kernel_pack({power_nest(NestOp::kExp)}, "", path()).compiled, 1);
  EXPECT_EQ(ArtifactPack(path()).size(), 1u);
}

TEST_F(KernelPackTest, AFailureLeavesTheEarlierPack) {
  build_kernel_pack({power_nest(NestOp::kExp)}, "", path());
  LoopNest broken = power_nest(NestOp::kLog);
  broken.nodes[1].dtype = kI32;
  try {
    build_kernel_pack({broken}, "", path());
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(e.message().find("in\nnest pointwise"), std::string::npos) << e.message();
  }
  EXPECT_EQ(build_kernel_pack({power_nest(NestOp::kExp)}, "", path()).kept, 1);
  std::ofstream(directory_ + "/file") << "x";
  EXPECT_THROW(build_kernel_pack({}, "", directory_ + "/file/below.pack"), Error);
}

}  // namespace
}  // namespace neuron::testing
