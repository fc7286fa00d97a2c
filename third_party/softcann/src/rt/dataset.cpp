#include "rt/dataset.h"

#include "rt/error.h"

using namespace softcann;

extern "C" {

aclmdlDataset* aclmdlCreateDataset() {
  SOFTCANN_ENTRY_VALUE(aclmdlCreateDataset, nullptr);
  return new aclmdlDataset;
}

aclError aclmdlDestroyDataset(const aclmdlDataset* dataset) {
  SOFTCANN_ENTRY(aclmdlDestroyDataset);
  SOFTCANN_REQUIRE(dataset, "dataset");
  delete dataset;
  return ACL_SUCCESS;
}

aclError aclmdlAddDatasetBuffer(aclmdlDataset* dataset, aclDataBuffer* dataBuffer) {
  SOFTCANN_ENTRY(aclmdlAddDatasetBuffer);
  SOFTCANN_REQUIRE(dataset, "dataset");
  SOFTCANN_REQUIRE(dataBuffer, "dataBuffer");
  dataset->items.push_back({dataBuffer, nullptr});
  return ACL_SUCCESS;
}

size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset* dataset) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetDatasetNumBuffers, 0);
  return dataset == nullptr ? 0 : dataset->items.size();
}

aclDataBuffer* aclmdlGetDatasetBuffer(const aclmdlDataset* dataset, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetDatasetBuffer, nullptr);
  if (dataset == nullptr || index >= dataset->items.size()) {
    fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetDatasetBuffer: buffer %zu of %zu", index, dataset ? dataset->items.size() : 0);
    return nullptr;
  }
  return dataset->items[index].buffer;
}

aclError aclmdlSetDatasetTensorDesc(aclmdlDataset* dataset, aclTensorDesc* tensorDesc, size_t index) {
  SOFTCANN_ENTRY(aclmdlSetDatasetTensorDesc);
  SOFTCANN_REQUIRE(dataset, "dataset");
  if (index >= dataset->items.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlSetDatasetTensorDesc: buffer %zu of %zu", index, dataset->items.size());
  }
  dataset->items[index].description = tensorDesc ? std::make_shared<aclTensorDesc>(*tensorDesc) : nullptr;
  return ACL_SUCCESS;
}

aclTensorDesc* aclmdlGetDatasetTensorDesc(const aclmdlDataset* dataset, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetDatasetTensorDesc, nullptr);
  if (dataset == nullptr || index >= dataset->items.size()) {
    fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetDatasetTensorDesc: buffer %zu of %zu", index, dataset ? dataset->items.size() : 0);
    return nullptr;
  }
  return dataset->items[index].description.get();
}
}
