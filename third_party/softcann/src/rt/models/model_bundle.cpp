// Bundles: several models in one file (python -m softcann bundle makes one). A bundle that was loaded has all its models loaded;
// one that was initialised loads them one by one.
#include <set>

#include "rt/base/described.h"
#include "rt/device/device.h"
#include "rt/base/error.h"
#include "rt/models/models.h"

using namespace softcann;

struct aclmdlBundleQueryInfo : softcann::Handled {
  struct Sizes {
    size_t work, weights;
  };
  std::vector<Sizes> models;
};

namespace {

struct Bundle {
  std::string path;
  std::shared_ptr<std::string> memory;  // a copy of the client's, where there is no file
  size_t count = 0;
  std::vector<uint32_t> models;  // of one that was loaded: by their places
  std::set<uint32_t> loaded;     // all that it has loaded

  ModelSource source(size_t part) const {
    if (memory == nullptr) return {path.c_str(), nullptr, 0, part};
    return {nullptr, memory->data(), memory->size(), part};
  }
};

struct Bundles {
  std::mutex mutex;
  std::map<uint32_t, std::shared_ptr<Bundle>> all;
  uint32_t next = 1;
};

Bundles& bundles() {
  static auto* instance = new Bundles;
  return *instance;
}

aclError unknown(const char* entry, uint32_t id) {
  return fail(ACL_ERROR_INVALID_BUNDLE_MODEL_ID, "%s: there is no bundle %u (unloaded, or never loaded)", entry, id);
}

// The caller holds the lock; null: unknown().
std::shared_ptr<Bundle> find_bundle(uint32_t id) {
  const auto found = bundles().all.find(id);
  return found != bundles().all.end() ? found->second : nullptr;
}

void unload_all(const Bundle& bundle) {
  for (const uint32_t model : bundle.loaded) unload_model(model);
}

aclError load_all(const char* entry, Bundle& bundle) {
  for (size_t i = 0; i < bundle.count; ++i) {
    uint32_t model = 0;
    if (const aclError code = load_model(entry, bundle.source(i), &model)) return code;
    bundle.models.push_back(model);
    bundle.loaded.insert(model);
  }
  return ACL_SUCCESS;
}

// With `whole` its models are loaded at once.
aclError add_bundle(const char* entry, Bundle made, bool whole, uint32_t* id) {
  SOFTCANN_REQUIRE(id, "bundleId");
  if (current_device() < 0) return no_context(entry);
  if (const aclError code = count_models(made.source(ModelSource::whole), &made.count)) return code;
  if (whole) {
    if (const aclError code = load_all(entry, made)) {
      const std::string text = take_recent_error();
      unload_all(made);
      return fail(code, "%s", text.c_str());
    }
  }
  const std::lock_guard<std::mutex> lock(bundles().mutex);
  *id = bundles().next++;
  bundles().all.emplace(*id, std::make_shared<Bundle>(std::move(made)));
  return ACL_SUCCESS;
}

Bundle of_file(const char* path) {
  Bundle made;
  made.path = path;
  return made;
}

Bundle of_memory(const void* model, size_t size) {
  Bundle made;
  made.memory = std::make_shared<std::string>(static_cast<const char*>(model), size);
  return made;
}

// Variables that a bundle's models share are not in softcann's models, so that memory for them is checked and not used.
aclError check_variables(const void* at, size_t size) {
  return at == nullptr || size == 0 ? ACL_SUCCESS : check_device_range(at, size);
}

// Loads one model of an initialised bundle by `load`.
template <class Load>
aclError load_one(const char* entry, uint32_t id, size_t index, uint32_t* model, Load load) {
  SOFTCANN_REQUIRE(model, "modelId");
  std::shared_ptr<Bundle> bundle;
  {
    const std::lock_guard<std::mutex> lock(bundles().mutex);
    bundle = find_bundle(id);
  }
  if (bundle == nullptr) return unknown(entry, id);
  if (const aclError code = load(bundle->source(index))) return code;
  {
    const std::lock_guard<std::mutex> lock(bundles().mutex);
    if (find_bundle(id) == bundle) {
      bundle->loaded.insert(*model);
      return ACL_SUCCESS;
    }
  }
  unload_model(*model);  // another thread has unloaded the bundle meanwhile
  return unknown(entry, id);
}

aclError query(const ModelSource& bundle, aclmdlBundleQueryInfo* to) {
  SOFTCANN_DESCRIBED(to, "queryInfo");
  size_t count = 0;
  if (const aclError code = count_models(bundle, &count)) return code;
  std::vector<aclmdlBundleQueryInfo::Sizes> sizes;
  for (ModelSource one = bundle; sizes.size() < count;) {
    one.part = sizes.size();
    std::shared_ptr<Model> model;
    if (const aclError code = open_model(one, true, &model)) return code;
    sizes.push_back({model->info().work_bytes, model->info().weight_bytes});
  }
  to->models = std::move(sizes);
  return ACL_SUCCESS;
}

}  // namespace

extern "C" {

aclError aclmdlBundleLoadFromFile(const char* modelPath, uint32_t* bundleId) {
  SOFTCANN_ENTRY(aclmdlBundleLoadFromFile);
  SOFTCANN_REQUIRE(modelPath, "modelPath");
  return add_bundle("aclmdlBundleLoadFromFile", of_file(modelPath), true, bundleId);
}

aclError aclmdlBundleLoadFromMem(const void* model, size_t modelSize, uint32_t* bundleId) {
  SOFTCANN_ENTRY(aclmdlBundleLoadFromMem);
  SOFTCANN_REQUIRE(model, "model");
  return add_bundle("aclmdlBundleLoadFromMem", of_memory(model, modelSize), true, bundleId);
}

aclError aclmdlBundleInitFromFile(const char* modelPath, void* varWeightPtr, size_t varWeightSize, uint32_t* bundleId) {
  SOFTCANN_ENTRY(aclmdlBundleInitFromFile);
  SOFTCANN_REQUIRE(modelPath, "modelPath");
  if (const aclError code = check_variables(varWeightPtr, varWeightSize)) return code;
  return add_bundle("aclmdlBundleInitFromFile", of_file(modelPath), false, bundleId);
}

aclError aclmdlBundleInitFromMem(const void* model, size_t modelSize, void* varWeightPtr, size_t varWeightSize,
                                 uint32_t* bundleId) {
  SOFTCANN_ENTRY(aclmdlBundleInitFromMem);
  SOFTCANN_REQUIRE(model, "model");
  if (const aclError code = check_variables(varWeightPtr, varWeightSize)) return code;
  return add_bundle("aclmdlBundleInitFromMem", of_memory(model, modelSize), false, bundleId);
}

aclError aclmdlBundleLoadModel(uint32_t bundleId, size_t index, uint32_t* modelId) {
  SOFTCANN_ENTRY(aclmdlBundleLoadModel);
  return load_one("aclmdlBundleLoadModel", bundleId, index, modelId,
                  [&](const ModelSource& source) { return load_model("aclmdlBundleLoadModel", source, modelId); });
}

aclError aclmdlBundleLoadModelWithMem(uint32_t bundleId, size_t index, void* workPtr, size_t workSize, void* weightPtr,
                                      size_t weightSize, uint32_t* modelId) {
  SOFTCANN_ENTRY(aclmdlBundleLoadModelWithMem);
  return load_one("aclmdlBundleLoadModelWithMem", bundleId, index, modelId, [&](const ModelSource& source) {
    return load_model_with("aclmdlBundleLoadModelWithMem", source, modelId, workPtr, workSize, weightPtr, weightSize);
  });
}

aclError aclmdlBundleLoadModelWithConfig(uint32_t bundleId, size_t index, aclmdlConfigHandle* handle, uint32_t* modelId) {
  SOFTCANN_ENTRY(aclmdlBundleLoadModelWithConfig);
  SOFTCANN_REQUIRE(handle, "handle");
  return load_one("aclmdlBundleLoadModelWithConfig", bundleId, index, modelId, [&](const ModelSource& source) {
    return load_model_configured("aclmdlBundleLoadModelWithConfig", source, *handle, modelId);
  });
}

aclError aclmdlBundleUnloadModel(uint32_t bundleId, uint32_t modelId) {
  SOFTCANN_ENTRY(aclmdlBundleUnloadModel);
  {
    const std::lock_guard<std::mutex> lock(bundles().mutex);
    const std::shared_ptr<Bundle> bundle = find_bundle(bundleId);
    if (bundle == nullptr) return unknown("aclmdlBundleUnloadModel", bundleId);
    if (bundle->loaded.erase(modelId) == 0) {
      return fail(ACL_ERROR_GE_EXEC_MODEL_ID_INVALID, "aclmdlBundleUnloadModel: bundle %u has not loaded a model %u", bundleId,
                  modelId);
    }
  }
  return unload_model(modelId);
}

aclError aclmdlBundleUnload(uint32_t bundleId) {
  SOFTCANN_ENTRY(aclmdlBundleUnload);
  std::shared_ptr<Bundle> bundle;
  {
    const std::lock_guard<std::mutex> lock(bundles().mutex);
    bundle = find_bundle(bundleId);
    if (bundle == nullptr) return unknown("aclmdlBundleUnload", bundleId);
    bundles().all.erase(bundleId);
  }
  unload_all(*bundle);
  return ACL_SUCCESS;
}

aclError aclmdlBundleGetModelNum(uint32_t bundleId, size_t* modelNum) {
  SOFTCANN_ENTRY(aclmdlBundleGetModelNum);
  SOFTCANN_REQUIRE(modelNum, "modelNum");
  const std::lock_guard<std::mutex> lock(bundles().mutex);
  const std::shared_ptr<Bundle> bundle = find_bundle(bundleId);
  if (bundle == nullptr) return unknown("aclmdlBundleGetModelNum", bundleId);
  *modelNum = bundle->count;
  return ACL_SUCCESS;
}

aclError aclmdlBundleGetModelId(uint32_t bundleId, size_t index, uint32_t* modelId) {
  SOFTCANN_ENTRY(aclmdlBundleGetModelId);
  SOFTCANN_REQUIRE(modelId, "modelId");
  const std::lock_guard<std::mutex> lock(bundles().mutex);
  const std::shared_ptr<Bundle> bundle = find_bundle(bundleId);
  if (bundle == nullptr) return unknown("aclmdlBundleGetModelId", bundleId);
  if (index >= bundle->models.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlBundleGetModelId: bundle %u has loaded %zu models, none of the number %zu%s",
                bundleId, bundle->models.size(), index,
                bundle->models.empty() ? " (aclmdlBundleLoadModel loads those of a bundle that was initialised)" : "");
  }
  *modelId = bundle->models[index];
  return ACL_SUCCESS;
}

SOFTCANN_DESCRIPTION(aclmdlBundleQueryInfo, aclmdlBundleCreateQueryInfo, aclmdlBundleDestroyQueryInfo, aclmdlBundleQueryInfo*,
                     "queryInfo")

aclError aclmdlBundleQueryInfoFromFile(const char* fileName, aclmdlBundleQueryInfo* queryInfo) {
  SOFTCANN_ENTRY(aclmdlBundleQueryInfoFromFile);
  SOFTCANN_REQUIRE(fileName, "fileName");
  return query({fileName, nullptr, 0}, queryInfo);
}

aclError aclmdlBundleQueryInfoFromMem(const void* model, size_t modelSize, aclmdlBundleQueryInfo* queryInfo) {
  SOFTCANN_ENTRY(aclmdlBundleQueryInfoFromMem);
  SOFTCANN_REQUIRE(model, "model");
  return query({nullptr, model, modelSize}, queryInfo);
}

aclError aclmdlBundleGetQueryModelNum(const aclmdlBundleQueryInfo* queryInfo, size_t* modelNum) {
  SOFTCANN_ENTRY(aclmdlBundleGetQueryModelNum);
  SOFTCANN_DESCRIBED(queryInfo, "queryInfo");
  SOFTCANN_REQUIRE(modelNum, "modelNum");
  *modelNum = queryInfo->models.size();
  return ACL_SUCCESS;
}

aclError aclmdlBundleGetSize(const aclmdlBundleQueryInfo* queryInfo, size_t index, size_t* workSize, size_t* constWeightSize) {
  SOFTCANN_ENTRY(aclmdlBundleGetSize);
  SOFTCANN_DESCRIBED(queryInfo, "queryInfo");
  SOFTCANN_REQUIRE(workSize, "workSize");
  SOFTCANN_REQUIRE(constWeightSize, "constWeightSize");
  if (index >= queryInfo->models.size()) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclmdlBundleGetSize: the bundle has %zu models, none of the number %zu",
                queryInfo->models.size(), index);
  }
  *workSize = queryInfo->models[index].work;
  *constWeightSize = queryInfo->models[index].weights;
  return ACL_SUCCESS;
}

// Of variables that the models share: atc makes none.
aclError aclmdlBundleGetVarWeightSize(const aclmdlBundleQueryInfo* queryInfo, size_t* variableWeightSize) {
  SOFTCANN_ENTRY(aclmdlBundleGetVarWeightSize);
  SOFTCANN_DESCRIBED(queryInfo, "queryInfo");
  SOFTCANN_REQUIRE(variableWeightSize, "variableWeightSize");
  *variableWeightSize = 0;
  return ACL_SUCCESS;
}
}
