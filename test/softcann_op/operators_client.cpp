// A program for CANN as Ascend's examples are: headers of aclnnop/, operators in two phases. test_operator_headers.py builds it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_cat.h"
#include "aclnnop/aclnn_convolution.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_max_pool.h"
#include "aclnnop/aclnn_neg.h"
#include "aclnnop/aclnn_trans_convolution_weight.h"
#include "aclnnop/aclnn_trans_matmul_weight.h"
#include "aclnnop/aclnn_trans_quant_param.h"
#include "aclnnop/level2/aclnn_pow.h"

// A program may declare what it includes no header of.
extern "C" aclnnStatus aclnnRotaryPositionEmbeddingGetWorkspaceSize(const aclTensor* x, const aclTensor* cos,
                                                                    const aclTensor* sin, int64_t mode, const aclTensor* y,
                                                                    uint64_t* workspace_size, aclOpExecutor** executor);

#define CHECK(call)                                                                                               \
  do {                                                                                                            \
    if (const int status = (call)) std::printf("%s: %d %s\n", #call, status, aclGetRecentErrMsg()), std::exit(1); \
  } while (0)

aclrtStream stream;

template <class T>
struct Tensor {
  std::vector<int64_t> sizes, strides;
  void* data = nullptr;
  aclTensor* handle = nullptr;

  Tensor(std::vector<int64_t> of, const std::vector<T>& values, aclDataType type, int64_t room = 0) : sizes(std::move(of)) {
    int64_t count = 1;
    strides.resize(sizes.size());
    for (size_t i = sizes.size(); i-- > 0; count *= sizes[i]) strides[i] = count;
    CHECK(aclrtMalloc(&data, static_cast<size_t>(room ? room : count) * sizeof(T), ACL_MEM_MALLOC_HUGE_FIRST));
    if (!values.empty()) {
      CHECK(aclrtMemcpy(data, values.size() * sizeof(T), values.data(), values.size() * sizeof(T), ACL_MEMCPY_HOST_TO_DEVICE));
    }
    handle = aclCreateTensor(sizes.data(), sizes.size(), type, strides.data(), 0, ACL_FORMAT_ND, &count, 1, data);
  }
  void print(const char* name, size_t count) {
    std::vector<T> values(count);
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(values.data(), count * sizeof(T), data, count * sizeof(T), ACL_MEMCPY_DEVICE_TO_HOST));
    std::printf("%s:", name);
    for (const T value : values) std::printf(" %g", static_cast<double>(value));
    std::printf("\n");
  }
};

#define RUN(name, ...)                                                         \
  do {                                                                         \
    uint64_t size = 0;                                                         \
    aclOpExecutor* executor = nullptr;                                         \
    CHECK(name##GetWorkspaceSize(__VA_ARGS__, &size, &executor));              \
    void* workspace = nullptr;                                                 \
    if (size) CHECK(aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST)); \
    CHECK(name(workspace, size, executor, stream));                            \
  } while (0)

std::vector<uint16_t> half(std::vector<float> values) {
  std::vector<uint16_t> bits;
  for (const float value : values) bits.push_back(aclFloatToFloat16(value));
  return bits;
}

// Two filters of one channel and two columns, in blocks before their convolution.
void filters() {
  const int64_t sizes[] = {2, 1, 1, 2};
  uint64_t elements = 0;
  aclIntArray* shape = aclCreateIntArray(sizes, 4);
  CHECK(aclnnCalculateConvolutionWeightSize(shape, false, 1, ACL_FLOAT16, &elements));
  std::printf("elements of filters: %d, of two groups: %d\n", static_cast<int>(elements),
              aclnnCalculateConvolutionWeightSize(shape, false, 2, ACL_FLOAT16, &elements));
  Tensor<uint16_t> plain({2, 1, 1, 2}, half({1, 10, 100, 1000}), ACL_FLOAT16), image({1, 1, 1, 3}, half({1, 2, 3}), ACL_FLOAT16);
  Tensor<uint16_t> blocks({2, 1, 1, 2}, {}, ACL_FLOAT16, 512), out({1, 2, 1, 2}, {}, ACL_FLOAT16);
  const int64_t ones[] = {1, 1}, none[] = {0, 0};
  RUN(aclnnTransConvolutionWeight, plain.handle, false, 1, blocks.handle);
  RUN(aclnnConvolution, image.handle, blocks.handle, nullptr, aclCreateIntArray(ones, 2), aclCreateIntArray(none, 2),
      aclCreateIntArray(ones, 2), false, aclCreateIntArray(none, 2), 1, out.handle, int8_t{0});
  std::vector<uint16_t> bits(512);
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclrtMemcpy(bits.data(), 8, out.data, 8, ACL_MEMCPY_DEVICE_TO_HOST));
  std::printf("convolved: %g %g %g %g\n", aclFloat16ToFloat(bits[0]), aclFloat16ToFloat(bits[1]), aclFloat16ToFloat(bits[2]),
              aclFloat16ToFloat(bits[3]));
  CHECK(aclrtMemcpy(bits.data(), 1024, blocks.data, 1024, ACL_MEMCPY_DEVICE_TO_HOST));
  std::printf("filters: %g %g %g %g\n", aclFloat16ToFloat(bits[0]), aclFloat16ToFloat(bits[1]), aclFloat16ToFloat(bits[16]),
              aclFloat16ToFloat(bits[256]));
}

// A weight in blocks, prepared for its product before it is there.
void weights() {
  const int64_t weight_sizes[] = {3, 2};
  aclIntArray* shape = aclCreateIntArray(weight_sizes, 2);
  uint64_t elements = 0, of_bytes = 0;
  CHECK(aclnnCalculateMatmulWeightSizeV2(shape, ACL_FLOAT16, &elements));
  CHECK(aclnnCalculateMatmulWeightSizeV2(shape, ACL_INT8, &of_bytes));
  std::printf("elements: %d %d, float32: %d\n", static_cast<int>(elements), static_cast<int>(of_bytes),
              aclnnCalculateMatmulWeightSizeV2(shape, ACL_FLOAT, &of_bytes));
  Tensor<uint16_t> weight({3, 2}, half({1, 2, 3, 4, 5, 6}), ACL_FLOAT16, static_cast<int64_t>(elements));
  Tensor<uint16_t> rows({1, 3}, half({1, 10, 100}), ACL_FLOAT16), product({1, 2}, {}, ACL_FLOAT16);
  RUN(aclnnTransMatmulWeight, weight.handle);
  RUN(aclnnMatmul, rows.handle, weight.handle, product.handle, int8_t{0});
  std::vector<uint16_t> bits(elements);
  CHECK(aclrtSynchronizeStream(stream));
  CHECK(aclrtMemcpy(bits.data(), 4, product.data, 4, ACL_MEMCPY_DEVICE_TO_HOST));
  std::printf("product: %g %g\n", aclFloat16ToFloat(bits[0]), aclFloat16ToFloat(bits[1]));
  CHECK(aclrtMemcpy(bits.data(), elements * 2, weight.data, elements * 2, ACL_MEMCPY_DEVICE_TO_HOST));
  std::printf("blocks: %g %g %g %g %g\n", aclFloat16ToFloat(bits[0]), aclFloat16ToFloat(bits[1]), aclFloat16ToFloat(bits[2]),
              aclFloat16ToFloat(bits[16]), aclFloat16ToFloat(bits[33]));
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const int again = aclnnTransMatmulWeightGetWorkspaceSize(weight.handle, &size, &executor);
  std::printf("again: %d %s\n", again, aclGetRecentErrMsg());
  std::printf("other: %d\n", aclnnNegGetWorkspaceSize(weight.handle, weight.handle, &size, &executor));
}

int main() {
  CHECK(aclnnInit(nullptr));
  std::printf("begun: %d %d\n", aclInit(nullptr), aclnnInit("a_file"));
  CHECK(aclrtSetDevice(0));
  CHECK(aclrtCreateStream(&stream));

  Tensor<float> a({2, 2}, {1, 2, 3, 4}, ACL_FLOAT), b({2, 2}, {10, 20, 30, 40}, ACL_FLOAT), out({2, 2}, {}, ACL_FLOAT);
  float one = 1, two = 2;
  aclScalar *alpha = aclCreateScalar(&one, ACL_FLOAT), *exponent = aclCreateScalar(&two, ACL_FLOAT);
  RUN(aclnnAdd, a.handle, b.handle, alpha, out.handle);
  out.print("sum", 4);
  RUN(aclnnPowTensorScalar, a.handle, exponent, out.handle);
  out.print("squares", 4);
  aclTensor* both[] = {a.handle, b.handle};  // not of const, as programs in C++ have them
  Tensor<float> joined({4, 2}, {}, ACL_FLOAT);
  RUN(aclnnCat, aclCreateTensorList(both, 2), 0, joined.handle);
  joined.print("joined", 8);

  // Windows of 2 by 2, rows padded before, columns after.
  Tensor<float> image({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}, ACL_FLOAT), pooled({1, 1, 3, 3}, {}, ACL_FLOAT);
  const int64_t window[] = {2, 2}, step[] = {1, 1}, pads[] = {1, 0, 0, 1}, dilation[] = {1};
  RUN(aclnnMaxPool, image.handle, aclCreateIntArray(window, 2), aclCreateIntArray(step, 2), 0, aclCreateIntArray(pads, 4),
      aclCreateIntArray(dilation, 1), 0, pooled.handle);
  pooled.print("pooled", 9);

  // A view whose storage is described without its offset: the memory is there.
  const int64_t row[] = {2}, step_of_row[] = {1}, room[] = {2};
  aclTensor* second = aclCreateTensor(row, 1, ACL_FLOAT, step_of_row, 2, ACL_FORMAT_ND, room, 1, joined.data);
  Tensor<float> doubled({2}, {}, ACL_FLOAT);
  RUN(aclnnAdd, second, second, alpha, doubled.handle);
  doubled.print("beyond the storage", 2);
  aclTensor* outside = aclCreateTensor(row, 1, ACL_FLOAT, step_of_row, int64_t{1} << 40, ACL_FORMAT_ND, room, 1, joined.data);
  uint64_t none = 0;
  aclOpExecutor* refused = nullptr;
  std::printf("beyond the memory: %d\n", aclnnAddGetWorkspaceSize(outside, outside, alpha, doubled.handle, &none, &refused));
  weights();
  filters();

  const float scales[] = {1.5, 2}, offsets[] = {-3};
  uint64_t *parameters = nullptr, count = 0;
  CHECK(aclnnTransQuantParam(scales, 2, offsets, 1, &parameters, &count));
  std::printf("parameters: %llu %llx %llx\n", static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(parameters[0]), static_cast<unsigned long long>(parameters[1]));
  std::free(parameters);
  std::printf("parameters of three offsets: %d\n", aclnnTransQuantParam(scales, 2, scales, 3, &parameters, &count));
  CHECK(aclnnFinalize());
  CHECK(aclnnFinalize());
  std::printf("ended: %d\n", aclFinalize());
}
