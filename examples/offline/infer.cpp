// Inference through AscendCL, of any .om: aclmdlExecute, or several aclmdlExecuteAsync on a stream at once.
//
//   g++ -std=c++17 -I $CANN/include examples/offline/infer.cpp -L $CANN/lib -lascendcl -o infer
//   ./infer model.om [sync | async] [runs]
//
// With softcann $CANN/include is third_party/cann/include, and $CANN/lib what `python -m softcann path` prints. The inputs are
// ones (bytes of 0x3f, a float near 0.75); what comes out is printed as its first numbers.
#include <acl/acl.h>
#include <acl/acl_mdl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime.h"

namespace {

class Model {
 public:
  explicit Model(const char* path) : description(aclmdlCreateDesc()) {
    CHECK(aclmdlLoadFromFile(path, &id));
    CHECK(aclmdlGetDesc(description, id));
  }
  ~Model() {
    aclmdlUnload(id);
    aclmdlDestroyDesc(description);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  uint32_t id = 0;
  aclmdlDesc* description;
};

// Device memory for all inputs, or all outputs, of a model.
class Buffers {
 public:
  Buffers(const Model& model, bool inputs) : dataset(aclmdlCreateDataset()) {
    const size_t count = inputs ? aclmdlGetNumInputs(model.description) : aclmdlGetNumOutputs(model.description);
    for (size_t i = 0; i < count; ++i) {
      const size_t size =
          inputs ? aclmdlGetInputSizeByIndex(model.description, i) : aclmdlGetOutputSizeByIndex(model.description, i);
      if (size == 0) throw std::runtime_error("this example takes models of fixed sizes only");
      void* memory = nullptr;
      CHECK(aclrtMalloc(&memory, size, ACL_MEM_MALLOC_HUGE_FIRST));
      CHECK(aclrtMemset(memory, size, 0x3f, size));
      CHECK(aclmdlAddDatasetBuffer(dataset, aclCreateDataBuffer(memory, size)));
    }
  }
  ~Buffers() {
    for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(dataset); ++i) {
      aclDataBuffer* buffer = aclmdlGetDatasetBuffer(dataset, i);
      aclrtFree(aclGetDataBufferAddr(buffer));
      aclDestroyDataBuffer(buffer);
    }
    aclmdlDestroyDataset(dataset);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  aclmdlDataset* dataset;
};

void print_outputs(const Model& model, const Buffers& outputs) {
  for (size_t i = 0; i < aclmdlGetDatasetNumBuffers(outputs.dataset); ++i) {
    aclmdlIODims dims;
    CHECK(aclmdlGetCurOutputDims(model.description, i, &dims));
    std::printf("output %s [", aclmdlGetOutputNameByIndex(model.description, i));
    for (size_t d = 0; d < dims.dimCount; ++d) std::printf("%s%lld", d ? "," : "", static_cast<long long>(dims.dims[d]));
    std::printf("]");
    if (aclmdlGetOutputDataType(model.description, i) == ACL_FLOAT) {
      aclDataBuffer* buffer = aclmdlGetDatasetBuffer(outputs.dataset, i);
      std::vector<float> numbers(aclGetDataBufferSizeV2(buffer) / sizeof(float));
      const size_t bytes = numbers.size() * sizeof(float);
      CHECK(aclrtMemcpy(numbers.data(), bytes, aclGetDataBufferAddr(buffer), bytes, ACL_MEMCPY_DEVICE_TO_HOST));
      for (size_t n = 0; n < numbers.size() && n < 5; ++n) std::printf(" %g", static_cast<double>(numbers[n]));
    }
    std::printf("\n");
  }
}

void run(const char* path, bool asynchronous, int runs) {
  const Runtime runtime;
  const Model model(path);
  const Buffers inputs(model, true), outputs(model, false);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < runs; ++i) {
    if (asynchronous) {
      CHECK(aclmdlExecuteAsync(model.id, inputs.dataset, outputs.dataset, runtime.stream));
    } else {
      CHECK(aclmdlExecute(model.id, inputs.dataset, outputs.dataset));
    }
  }
  if (asynchronous) CHECK(aclrtSynchronizeStream(runtime.stream));
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  print_outputs(model, outputs);
  std::printf("%d runs, %.3f ms each\n", runs, spent.count() / runs);
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s model.om [sync | async] [runs]\n", arguments[0]);
    return 2;
  }
  try {
    run(arguments[1], count > 2 && std::strcmp(arguments[2], "async") == 0, count > 3 ? std::atoi(arguments[3]) : 1);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
