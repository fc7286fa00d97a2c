// Datasets: what goes into a model and comes out of it.
#pragma once

#include <memory>
#include <vector>

#include "rt/models/model.h"
#include "rt/models/tensor_desc.h"

namespace softcann {

struct DatasetItem {
  aclDataBuffer* buffer = nullptr;             // the client's
  std::shared_ptr<aclTensorDesc> description;  // null while nobody has said what is in it
};

}  // namespace softcann

struct aclmdlDataset : softcann::Handled {
  std::vector<softcann::DatasetItem> items;
  std::vector<int64_t> gear;  // set by the client for the next runs; empty: none
};
