// libacl_cblas: products of matrices (aclblas*), which are the operator GEMM: C = alpha * A @ B + beta * C. As on an NPU, a model
// of it for these types and sizes must have been loaded: see Note [Models of single operators].
#include <array>

#include "rt/base/error.h"
#include "rt/single_op/op_models.h"
#include "rt/models/tensor_desc.h"

#pragma GCC visibility push(default)
#include "acl/ops/acl_cblas.h"
#pragma GCC visibility pop

using namespace softcann;

namespace {

struct Gemm {
  const char* entry;
  aclTransType a_transpose, b_transpose, c_transpose;
  int m, n, k;
  aclDataType a_type, b_type, c_type;
};

bool is_plain(aclTransType transpose) { return transpose == ACL_TRANS_N || transpose == ACL_TRANS_T; }

aclError check(const Gemm& gemm) {
  if (gemm.m <= 0 || gemm.n <= 0 || gemm.k <= 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: sizes m %d, n %d, k %d must be positive", gemm.entry, gemm.m, gemm.n, gemm.k);
  }
  if (is_plain(gemm.a_transpose) && is_plain(gemm.b_transpose) && gemm.c_transpose == ACL_TRANS_N) return ACL_SUCCESS;
  return fail(
      ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
      "%s: A and B can be ACL_TRANS_N or ACL_TRANS_T, C ACL_TRANS_N; matrices in FRACTAL_NZ go through torch_npu or aclnnMm",
      gemm.entry);
}

// The operator's descriptions: A, B, C, alpha, beta.
struct Descriptions {
  explicit Descriptions(const Gemm& gemm) {
    const auto matrix = [](aclDataType type, int rows, int columns, aclTransType transpose) {
      aclTensorDesc made;
      made.type = type;
      made.format = ACL_FORMAT_ND;
      if (transpose == ACL_TRANS_T) std::swap(rows, columns);
      made.dims = {rows, columns};
      return made;
    };
    inputs[0] = matrix(gemm.a_type, gemm.m, gemm.k, gemm.a_transpose);
    inputs[1] = matrix(gemm.b_type, gemm.k, gemm.n, gemm.b_transpose);
    inputs[2] = output = matrix(gemm.c_type, gemm.m, gemm.n, ACL_TRANS_N);
    inputs[3].type = inputs[4].type = gemm.c_type;
    inputs[3].format = inputs[4].format = ACL_FORMAT_ND;
    for (size_t i = 0; i < inputs.size(); ++i) in[i] = &inputs[i];
    attributes.values["transpose_a"] = gemm.a_transpose == ACL_TRANS_T;
    attributes.values["transpose_b"] = gemm.b_transpose == ACL_TRANS_T;
  }

  std::array<aclTensorDesc, 5> inputs;
  aclTensorDesc output;
  std::array<const aclTensorDesc*, 5> in;
  const aclTensorDesc* out = &output;
  aclopAttr attributes;
};

aclError multiply(const Gemm& gemm, const void* alpha, const void* a, int a_stride, const void* b, int b_stride, const void* beta,
                  void* c, int c_stride, aclrtStream stream) {
  for (const void* one : {alpha, a, b, beta, static_cast<const void*>(c)}) SOFTCANN_REQUIRE(one, "a matrix, alpha or beta");
  if (const aclError code = check(gemm)) return code;
  if (a_stride != -1 || b_stride != -1 || c_stride != -1) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: leading dimensions %d, %d, %d: CANN takes -1 only", gemm.entry, a_stride, b_stride,
                c_stride);
  }
  const Descriptions descs(gemm);
  std::array<std::shared_ptr<aclDataBuffer>, 5> buffers;
  std::array<const aclDataBuffer*, 5> from;
  const std::array<const void*, 5> places{a, b, c, alpha, beta};
  for (size_t i = 0; i < places.size(); ++i) {
    buffers[i] = owned<aclDataBuffer>();
    buffers[i]->data = const_cast<void*>(places[i]);
    buffers[i]->size = bytes_of(*descs.in[i]);
    from[i] = buffers[i].get();
  }
  aclDataBuffer* to = buffers[2].get();
  const OpCall call{"GEMM", 5, descs.in.data(), from.data(), 1, &descs.out, &to, &descs.attributes};
  const auto model = find_op_model(gemm.entry, call);
  return model == nullptr ? ACL_ERROR_OP_NOT_FOUND : execute_op_model(gemm.entry, *model, call, stream);
}

aclError prepare(const Gemm& gemm, aclopHandle** handle) {
  if (const aclError code = check(gemm)) return code;
  Descriptions descs(gemm);
  return create_op_handle(gemm.entry, {"GEMM", 5, descs.in.data(), nullptr, 1, &descs.out, nullptr, &descs.attributes}, handle);
}

// A matrix times a vector: n is 1.
Gemm gemv(const char* entry, aclTransType transpose, int m, int n, aclDataType a, aclDataType x, aclDataType y) {
  return {entry, transpose, ACL_TRANS_N, ACL_TRANS_N, m, 1, n, a, x, y};
}

}  // namespace

extern "C" {

aclError aclblasGemmEx(aclTransType transA, aclTransType transB, aclTransType transC, int m, int n, int k, const void* alpha,
                       const void* matrixA, int lda, aclDataType dataTypeA, const void* matrixB, int ldb, aclDataType dataTypeB,
                       const void* beta, void* matrixC, int ldc, aclDataType dataTypeC, aclComputeType, aclrtStream stream) {
  SOFTCANN_ENTRY(aclblasGemmEx);
  const Gemm gemm{"aclblasGemmEx", transA, transB, transC, m, n, k, dataTypeA, dataTypeB, dataTypeC};
  return multiply(gemm, alpha, matrixA, lda, matrixB, ldb, beta, matrixC, ldc, stream);
}

aclError aclblasGemvEx(aclTransType transA, int m, int n, const void* alpha, const void* a, int lda, aclDataType dataTypeA,
                       const void* x, int incx, aclDataType dataTypeX, const void* beta, void* y, int incy, aclDataType dataTypeY,
                       aclComputeType, aclrtStream stream) {
  SOFTCANN_ENTRY(aclblasGemvEx);
  return multiply(gemv("aclblasGemvEx", transA, m, n, dataTypeA, dataTypeX, dataTypeY), alpha, a, lda, x, incx, beta, y, incy,
                  stream);
}

aclError aclblasHgemm(aclTransType transA, aclTransType transB, aclTransType transC, int m, int n, int k, const aclFloat16* alpha,
                      const aclFloat16* matrixA, int lda, const aclFloat16* matrixB, int ldb, const aclFloat16* beta,
                      aclFloat16* matrixC, int ldc, aclComputeType, aclrtStream stream) {
  SOFTCANN_ENTRY(aclblasHgemm);
  const Gemm gemm{"aclblasHgemm", transA, transB, transC, m, n, k, ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16};
  return multiply(gemm, alpha, matrixA, lda, matrixB, ldb, beta, matrixC, ldc, stream);
}

aclError aclblasHgemv(aclTransType transA, int m, int n, const aclFloat16* alpha, const aclFloat16* a, int lda,
                      const aclFloat16* x, int incx, const aclFloat16* beta, aclFloat16* y, int incy, aclComputeType,
                      aclrtStream stream) {
  SOFTCANN_ENTRY(aclblasHgemv);
  return multiply(gemv("aclblasHgemv", transA, m, n, ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16), alpha, a, lda, x, incx, beta, y,
                  incy, stream);
}

aclError aclblasS8gemm(aclTransType transA, aclTransType transB, aclTransType transC, int m, int n, int k, const int32_t* alpha,
                       const int8_t* matrixA, int lda, const int8_t* matrixB, int ldb, const int32_t* beta, int32_t* matrixC,
                       int ldc, aclComputeType, aclrtStream stream) {
  SOFTCANN_ENTRY(aclblasS8gemm);
  const Gemm gemm{"aclblasS8gemm", transA, transB, transC, m, n, k, ACL_INT8, ACL_INT8, ACL_INT32};
  return multiply(gemm, alpha, matrixA, lda, matrixB, ldb, beta, matrixC, ldc, stream);
}

aclError aclblasS8gemv(aclTransType transA, int m, int n, const int32_t* alpha, const int8_t* a, int lda, const int8_t* x,
                       int incx, const int32_t* beta, int32_t* y, int incy, aclComputeType, aclrtStream stream) {
  SOFTCANN_ENTRY(aclblasS8gemv);
  return multiply(gemv("aclblasS8gemv", transA, m, n, ACL_INT8, ACL_INT8, ACL_INT32), alpha, a, lda, x, incx, beta, y, incy,
                  stream);
}

aclError aclblasCreateHandleForGemmEx(aclTransType transA, aclTransType transB, aclTransType transC, int m, int n, int k,
                                      aclDataType dataTypeA, aclDataType dataTypeB, aclDataType dataTypeC, aclComputeType,
                                      aclopHandle** handle) {
  SOFTCANN_ENTRY(aclblasCreateHandleForGemmEx);
  return prepare({"aclblasCreateHandleForGemmEx", transA, transB, transC, m, n, k, dataTypeA, dataTypeB, dataTypeC}, handle);
}

aclError aclblasCreateHandleForGemvEx(aclTransType transA, int m, int n, aclDataType dataTypeA, aclDataType dataTypeX,
                                      aclDataType dataTypeY, aclComputeType, aclopHandle** handle) {
  SOFTCANN_ENTRY(aclblasCreateHandleForGemvEx);
  return prepare(gemv("aclblasCreateHandleForGemvEx", transA, m, n, dataTypeA, dataTypeX, dataTypeY), handle);
}

aclError aclblasCreateHandleForHgemm(aclTransType transA, aclTransType transB, aclTransType transC, int m, int n, int k,
                                     aclComputeType, aclopHandle** handle) {
  SOFTCANN_ENTRY(aclblasCreateHandleForHgemm);
  return prepare({"aclblasCreateHandleForHgemm", transA, transB, transC, m, n, k, ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16}, handle);
}

aclError aclblasCreateHandleForHgemv(aclTransType transA, int m, int n, aclComputeType, aclopHandle** handle) {
  SOFTCANN_ENTRY(aclblasCreateHandleForHgemv);
  return prepare(gemv("aclblasCreateHandleForHgemv", transA, m, n, ACL_FLOAT16, ACL_FLOAT16, ACL_FLOAT16), handle);
}

aclError aclblasCreateHandleForS8gemm(aclTransType transA, aclTransType transB, aclTransType transC, int m, int n, int k,
                                      aclComputeType, aclopHandle** handle) {
  SOFTCANN_ENTRY(aclblasCreateHandleForS8gemm);
  return prepare({"aclblasCreateHandleForS8gemm", transA, transB, transC, m, n, k, ACL_INT8, ACL_INT8, ACL_INT32}, handle);
}

aclError aclblasCreateHandleForS8gemv(aclTransType transA, int m, int n, aclComputeType, aclopHandle** handle) {
  SOFTCANN_ENTRY(aclblasCreateHandleForS8gemv);
  return prepare(gemv("aclblasCreateHandleForS8gemv", transA, m, n, ACL_INT8, ACL_INT8, ACL_INT32), handle);
}
}
