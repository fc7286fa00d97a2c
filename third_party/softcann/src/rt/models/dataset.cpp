#include "rt/models/dataset.h"

#include "rt/base/error.h"

using namespace softcann;

extern "C" {

aclmdlDataset* aclmdlCreateDataset() {
  SOFTCANN_ENTRY_VALUE(aclmdlCreateDataset, nullptr);
  return Described<aclmdlDataset>::make();
}

aclError aclmdlDestroyDataset(const aclmdlDataset* dataset) {
  SOFTCANN_ENTRY(aclmdlDestroyDataset);
  SOFTCANN_DESCRIBED(dataset, "dataset");
  Described<aclmdlDataset>::drop(dataset);
  return ACL_SUCCESS;
}

aclError aclmdlAddDatasetBuffer(aclmdlDataset* dataset, aclDataBuffer* dataBuffer) {
  SOFTCANN_ENTRY(aclmdlAddDatasetBuffer);
  SOFTCANN_DESCRIBED(dataset, "dataset");
  SOFTCANN_DESCRIBED(dataBuffer, "dataBuffer");
  dataset->items.push_back({dataBuffer, nullptr});
  return ACL_SUCCESS;
}

size_t aclmdlGetDatasetNumBuffers(const aclmdlDataset* dataset) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetDatasetNumBuffers, 0);
  return !is_described(dataset, "dataset") ? 0 : dataset->items.size();
}

aclDataBuffer* aclmdlGetDatasetBuffer(const aclmdlDataset* dataset, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetDatasetBuffer, nullptr);
  if (!is_described(dataset, "dataset")) return nullptr;
  if (index >= dataset->items.size()) {
    fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetDatasetBuffer: buffer %zu of %zu", index, dataset->items.size());
    return nullptr;
  }
  return dataset->items[index].buffer;
}

aclError aclmdlSetDatasetTensorDesc(aclmdlDataset* dataset, aclTensorDesc* tensorDesc, size_t index) {
  SOFTCANN_ENTRY(aclmdlSetDatasetTensorDesc);
  SOFTCANN_DESCRIBED(dataset, "dataset");
  if (index >= dataset->items.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlSetDatasetTensorDesc: buffer %zu of %zu", index, dataset->items.size());
  }
  if (tensorDesc != nullptr) SOFTCANN_DESCRIBED(tensorDesc, "tensorDesc");
  dataset->items[index].description = tensorDesc ? owned(*tensorDesc) : nullptr;
  return ACL_SUCCESS;
}

aclTensorDesc* aclmdlGetDatasetTensorDesc(const aclmdlDataset* dataset, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetDatasetTensorDesc, nullptr);
  if (!is_described(dataset, "dataset")) return nullptr;
  if (index >= dataset->items.size()) {
    fail(ACL_ERROR_INVALID_PARAM, "aclmdlGetDatasetTensorDesc: buffer %zu of %zu", index, dataset->items.size());
    return nullptr;
  }
  return dataset->items[index].description.get();
}
}
