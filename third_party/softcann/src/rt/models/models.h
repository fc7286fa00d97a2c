// The models a process has loaded, by their numbers.
#pragma once

#include <memory>
#include <mutex>

#include "rt/base/described.h"
#include "rt/models/model.h"

namespace softcann {

struct LoadedEntry {
  std::shared_ptr<const Model> model;
  std::mutex mutex;
  std::vector<int64_t> gear;  // set last, on whatever dataset: what aclmdlGetCurOutputDims speaks of
};

// Reads a model by libge_executor, which is loaded with the first. The code, its text recorded.
aclError open_model(const ModelSource& source, bool describe, std::shared_ptr<Model>* model);
// How many models the bundle holds; likewise.
aclError count_models(const ModelSource& source, size_t* count);
// What ModelCall::threads is to be of calls from this thread.
uint16_t model_threads();

aclError load_model(const char* entry, const ModelSource& source, uint32_t* id);
// The same with work and weight memory of the client's, or null: softcann needs none, but what is given must be memory, and
// enough.
aclError load_model_with(const char* entry, const ModelSource& source, uint32_t* id, const void* work, size_t work_size,
                         const void* weights, size_t weight_size);
// The same with what the client has set on the handle about memory.
aclError load_model_configured(const char* entry, const ModelSource& source, const aclmdlConfigHandle& handle, uint32_t* id);
aclError execute_model_async(const char* entry, uint32_t id, const aclmdlDataset* input, aclmdlDataset* output,
                             aclrtStream stream);
aclError unload_model(uint32_t id);
// Null, its code and text recorded, when there is no such model.
std::shared_ptr<LoadedEntry> find_model(const char* entry, uint32_t id);

#define MODEL_OR_RETURN(variable, entry, id)               \
  const auto variable = ::softcann::find_model(entry, id); \
  if (variable == nullptr) return ACL_ERROR_GE_EXEC_MODEL_ID_INVALID

}  // namespace softcann

// What clients ask a model about. It does not keep a loaded model in memory: that is aclmdlUnload's to end.
struct aclmdlDesc : softcann::Handled {
  std::shared_ptr<const softcann::ModelInfo> info;
  std::shared_ptr<const softcann::Model> described;  // from a file
  std::weak_ptr<softcann::LoadedEntry> loaded;       // of a loaded model
};
