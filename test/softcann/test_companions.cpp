// The libraries beside libascendcl: operators by name, single-rank collectives.
#include <cmath>
#include <cstdint>

#include "rt/base/half.h"
#include "acl/acl_op_compiler.h"
#include "acl_checks.h"
#include "hccl/hccl.h"

namespace {

// Runs a one-input operator on n elements and returns CANN's code.
template <class From, class To>
aclError run_unary(const char* op, const std::vector<From>& in, aclDataType from, std::vector<To>* out, aclDataType to) {
  const int64_t n = static_cast<int64_t>(in.size());
  void *a = nullptr, *b = nullptr;
  OK(aclrtSetDevice(0));
  OK(aclrtMalloc(&a, in.size() * sizeof(From), ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc(&b, in.size() * sizeof(To), ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMemcpy(a, in.size() * sizeof(From), in.data(), in.size() * sizeof(From), ACL_MEMCPY_HOST_TO_DEVICE));
  const aclTensorDesc* in_desc[] = {aclCreateTensorDesc(from, 1, &n, ACL_FORMAT_ND)};
  const aclTensorDesc* out_desc[] = {aclCreateTensorDesc(to, 1, &n, ACL_FORMAT_NCHW)};
  const aclDataBuffer* in_buffer[] = {aclCreateDataBuffer(a, in.size() * sizeof(From))};
  aclDataBuffer* out_buffer[] = {aclCreateDataBuffer(b, in.size() * sizeof(To))};
  aclopAttr* attr = aclopCreateAttr();
  OK(aclopSetAttrInt(attr, "dst_type", to));
  const aclError code = aclopCompileAndExecute(op, 1, in_desc, in_buffer, 1, out_desc, out_buffer, attr, ACL_ENGINE_SYS,
                                               ACL_COMPILE_SYS, nullptr, nullptr);
  if (code == ACL_SUCCESS) {
    OK(aclrtSynchronizeStream(nullptr));
    out->resize(in.size());
    OK(aclrtMemcpy(out->data(), in.size() * sizeof(To), b, in.size() * sizeof(To), ACL_MEMCPY_DEVICE_TO_HOST));
  }
  aclopDestroyAttr(attr);
  aclDestroyTensorDesc(in_desc[0]);
  aclDestroyTensorDesc(out_desc[0]);
  OK(aclDestroyDataBuffer(in_buffer[0]));
  OK(aclDestroyDataBuffer(out_buffer[0]));
  OK(aclrtFree(a));
  OK(aclrtFree(b));
  return code;
}

}  // namespace

TEST(identity_copies_and_cast_converts) {
  std::vector<float> out;
  OK(run_unary("Identity", std::vector<float>{1.5F, -2.0F, 3.25F}, ACL_FLOAT, &out, ACL_FLOAT));
  EXPECT(out == std::vector<float>({1.5F, -2.0F, 3.25F}));
  std::vector<int32_t> ints;
  OK(run_unary("Cast", std::vector<float>{1.9F, -2.9F, 70000.0F}, ACL_FLOAT, &ints, ACL_INT32));
  EXPECT(ints == std::vector<int32_t>({1, -2, 70000}));
  std::vector<uint16_t> halves;
  OK(run_unary("Cast", std::vector<int64_t>{1, 2048, -3}, ACL_INT64, &halves, ACL_FLOAT16));
  EXPECT(halves == std::vector<uint16_t>({0x3c00, 0x6800, 0xc200}));
  FAILS(run_unary("MatMul", std::vector<float>{1}, ACL_FLOAT, &out, ACL_FLOAT), ACL_ERROR_OP_NOT_FOUND, "MatMul");
  FAILS(run_unary("Identity", std::vector<float>{1}, ACL_FLOAT, &ints, ACL_INT32), ACL_ERROR_UNSUPPORTED_DATA_TYPE, "data type");
}

// Every half value there and back, and rounding at the borders.
TEST(half_conversion_is_exact_and_rounds_to_even) {
  bool exact = true;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = aclFloat16ToFloat(static_cast<aclFloat16>(bits));
    if (std::isnan(value)) continue;
    exact = exact && aclFloatToFloat16(value) == bits;
  }
  EXPECT(exact);
  EXPECT_EQ(aclFloatToFloat16(65504.0F), 0x7bff);
  EXPECT_EQ(aclFloatToFloat16(65519.9F), 0x7bff);
  EXPECT_EQ(aclFloatToFloat16(65520.0F), 0x7c00);
  EXPECT_EQ(aclFloatToFloat16(1.0F + 0x1p-11F), 0x3c00);
  EXPECT_EQ(aclFloatToFloat16(1.0F + 3 * 0x1p-11F), 0x3c02);
  EXPECT_EQ(aclFloatToFloat16(0x1p-25F), 0);
  EXPECT_EQ(aclFloatToFloat16(3 * 0x1p-25F), 2);
  EXPECT(std::isnan(aclFloat16ToFloat(aclFloatToFloat16(NAN))));
  EXPECT_EQ(softcann::float_to_bfloat(1.0F + 0x1p-8F), 0x3f80);
  EXPECT_EQ(softcann::float_to_bfloat(1.0F + 3 * 0x1p-8F), 0x3f82);
}

TEST(compile_options_are_kept) {
  EXPECT_EQ(aclGetCompileoptSize(ACL_OP_PRECISION_MODE), size_t{1});
  OK(aclSetCompileopt(ACL_OP_PRECISION_MODE, "file.ini"));
  char value[32];
  EXPECT_EQ(aclGetCompileoptSize(ACL_OP_PRECISION_MODE), size_t{9});
  OK(aclGetCompileopt(ACL_OP_PRECISION_MODE, value, sizeof value));
  EXPECT(std::strcmp(value, "file.ini") == 0);
  FAILS(aclGetCompileopt(ACL_OP_PRECISION_MODE, value, 3), ACL_ERROR_INVALID_PARAM, "room for 3");
}

TEST(collectives_of_one_rank_copy) {
  OK(aclrtSetDevice(0));
  HcclRootInfo root{};
  HcclComm comm = nullptr;
  EXPECT_EQ(HcclGetRootInfo(&root), HCCL_SUCCESS);
  FAILS(HcclCommInitRootInfo(1, &root, 1, &comm), HCCL_E_PARA, "rank 1 of 1");
  EXPECT_EQ(HcclCommInitRootInfo(1, &root, 0, &comm), HCCL_SUCCESS);
  uint32_t ranks = 0;
  EXPECT_EQ(HcclGetRankSize(comm, &ranks), HCCL_SUCCESS);
  EXPECT_EQ(ranks, 1U);
  void *a = nullptr, *b = nullptr;
  OK(aclrtMalloc(&a, 400, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMalloc(&b, 400, ACL_MEM_MALLOC_HUGE_FIRST));
  OK(aclrtMemset(a, 400, 0x31, 400));
  OK(aclrtMemset(b, 400, 0, 400));
  EXPECT_EQ(HcclAllReduce(a, b, 100, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, comm, nullptr), HCCL_SUCCESS);
  OK(aclrtSynchronizeStream(nullptr));
  int value = 0;
  OK(aclrtMemcpy(&value, 4, static_cast<char*>(b) + 396, 4, ACL_MEMCPY_DEVICE_TO_HOST));
  EXPECT_EQ(value, 0x31313131);
  FAILS(HcclAllReduce(a, b, 101, HCCL_DATA_TYPE_FP64, HCCL_REDUCE_SUM, comm, nullptr), HCCL_E_PARA, "reach beyond");
  FAILS(HcclBroadcast(a, 1, HCCL_DATA_TYPE_FP32, 3, comm, nullptr), HCCL_E_PARA, "root 3");
  EXPECT_EQ(HcclCommDestroy(comm), HCCL_SUCCESS);
  FAILS(HcclCommDestroy(comm), HCCL_E_PARA, "does not exist");
  OK(aclrtFree(a));
  OK(aclrtFree(b));
}
