#include "rt/models/dataset.h"

#include "rt/base/error.h"

using namespace softcann;

namespace {

bool has_item(const char* entry, const aclmdlDataset* dataset, size_t index) {
  if (!is_described(dataset, "dataset")) return false;
  if (index < dataset->items.size()) return true;
  fail(ACL_ERROR_INVALID_PARAM, "%s: buffer %zu of %zu", entry, index, dataset->items.size());
  return false;
}

}  // namespace

extern "C" {

SOFTCANN_DESCRIPTION(aclmdlDataset, aclmdlCreateDataset, aclmdlDestroyDataset, const aclmdlDataset*, "dataset")

aclError aclmdlAddDatasetBuffer(aclmdlDataset* dataset, aclDataBuffer* dataBuffer) {
  SOFTCANN_ENTRY(aclmdlAddDatasetBuffer);
  SOFTCANN_DESCRIBED(dataset, "dataset");
  SOFTCANN_DESCRIBED(dataBuffer, "dataBuffer");
  dataset->items.push_back({dataBuffer, nullptr});
  return ACL_SUCCESS;
}

SOFTCANN_DESCRIBED_VALUE(size_t, aclmdlGetDatasetNumBuffers, const aclmdlDataset*, "dataset", handle->items.size(), 0)

aclDataBuffer* aclmdlGetDatasetBuffer(const aclmdlDataset* dataset, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetDatasetBuffer, nullptr);
  return has_item("aclmdlGetDatasetBuffer", dataset, index) ? dataset->items[index].buffer : nullptr;
}

aclError aclmdlSetDatasetTensorDesc(aclmdlDataset* dataset, aclTensorDesc* tensorDesc, size_t index) {
  SOFTCANN_ENTRY(aclmdlSetDatasetTensorDesc);
  if (!has_item("aclmdlSetDatasetTensorDesc", dataset, index)) return ACL_ERROR_INVALID_PARAM;
  if (tensorDesc != nullptr) SOFTCANN_DESCRIBED(tensorDesc, "tensorDesc");
  dataset->items[index].description = tensorDesc ? owned(*tensorDesc) : nullptr;
  return ACL_SUCCESS;
}

aclTensorDesc* aclmdlGetDatasetTensorDesc(const aclmdlDataset* dataset, size_t index) {
  SOFTCANN_ENTRY_VALUE(aclmdlGetDatasetTensorDesc, nullptr);
  return has_item("aclmdlGetDatasetTensorDesc", dataset, index) ? dataset->items[index].description.get() : nullptr;
}
}
