// Models: loading, running, unloading.
#include <memory>

#include "rt/memory/check.h"
#include "rt/models/dataset.h"
#include "rt/device/device.h"
#include "rt/base/error.h"
#include "rt/models/models.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

// A run that has not ended: its buffers, and where it says what the outputs are like.
struct Run : ModelCall {
  std::shared_ptr<const Model> model;
  Device* owner = nullptr;
  // Of a model whose outputs' sizes are known after the run only: the descriptions to fill in, and the buffers that the
  // client left without memory.
  std::vector<std::shared_ptr<aclTensorDesc>> descriptions;
  std::vector<aclDataBuffer*> buffers;
};

struct RunTask : Task, Run {};

aclError give_memory(ModelCall& call, size_t output, size_t bytes) {
  auto& run = static_cast<Run&>(call);
  const uint64_t offset = run.owner->arena.allocate(bytes);
  if (offset == Arena::kNone) {
    task_error("there is not enough memory on device %d for output %zu of %zu bytes", run.device, output, bytes);
    return ACL_ERROR_RT_MEMORY_ALLOCATION;
  }
  void* address = reinterpret_cast<void*>(run.owner->base() + offset);
  run.buffers[output]->data = address;
  run.buffers[output]->size = bytes;
  call.outputs[output].data = device_view(address);
  call.outputs[output].bytes = bytes;
  return ACL_SUCCESS;
}

aclError run_now(Run& run) {
  if (const aclError code = run.model->run(run)) return code;
  for (size_t i = 0; i < run.descriptions.size(); ++i) {
    if (run.descriptions[i]) run.descriptions[i]->dims = run.outputs[i].dims;
  }
  return ACL_SUCCESS;
}

// Memory of the client as kernels may touch it.
aclError take_buffer(const char* what, const ModelTensor& tensor, const aclDataBuffer* buffer, size_t needed, ModelArgument* to) {
  if (buffer == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "%s '%s' has no buffer", what, tensor.name.c_str());
  SOFTCANN_DESCRIBED(buffer, "a buffer of the dataset");
  if (buffer->size < needed) {
    return fail(ACL_ERROR_GE_PARAM_INVALID, "%s '%s' needs %zu bytes, its buffer has %zu", what, tensor.name.c_str(), needed,
                buffer->size);
  }
  if (buffer->data == nullptr) {
    if (needed == 0) return ACL_SUCCESS;
    return fail(ACL_ERROR_GE_EXEC_MODEL_ADDR_INVALID, "the buffer of %s '%s' is a null pointer", what, tensor.name.c_str());
  }
  if (is_device_pointer(buffer->data)) {
    if (const aclError code = check_device_range(buffer->data, buffer->size)) return code;
  } else if (!options().host_tensors) {
    return fail(ACL_ERROR_GE_EXEC_MODEL_ADDR_INVALID, "the buffer of %s '%s', %p, is not device memory", what,
                tensor.name.c_str(), buffer->data);
  }
  check::mark_written_elsewhere(buffer->data, buffer->size);
  to->data = device_view(buffer->data);
  to->bytes = buffer->size;
  return ACL_SUCCESS;
}

bool fits(const ModelTensor& tensor, const std::vector<int64_t>& dims) {
  if (dims.size() != tensor.dims.size()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || (tensor.dims[i] >= 0 && dims[i] != tensor.dims[i])) return false;
    if (i < tensor.range.size() &&
        (dims[i] < tensor.range[i].first || (tensor.range[i].second >= 0 && dims[i] > tensor.range[i].second))) {
      return false;
    }
  }
  return true;
}

// The dims that an input has in this run.
aclError find_dims(const ModelInfo& info, const aclmdlDataset& dataset, size_t index, std::vector<int64_t>* dims) {
  const ModelTensor& tensor = info.inputs[index];
  const aclTensorDesc* given = dataset.items[index].description.get();
  if (info.gears_of != Gears::none) {
    *dims = info.input_dims(index, dataset.gear);
  } else {
    *dims = given ? given->dims : tensor.dims;
  }
  if (given && given->type != tensor.type) {
    return fail(ACL_ERROR_GE_DATATYPE_INVALID, "input '%s' is of the data type %d, its description says %d", tensor.name.c_str(),
                static_cast<int>(tensor.type), static_cast<int>(given->type));
  }
  if (fits(tensor, *dims)) return ACL_SUCCESS;
  return fail(ACL_ERROR_GE_SHAPE_INVALID,
              "input '%s' of the model has other dims than the dataset says; an open one is given by "
              "aclmdlSetDatasetTensorDesc",
              tensor.name.c_str());
}

aclError take_inputs(const ModelInfo& info, const aclmdlDataset& dataset, Run& run) {
  const size_t expected = info.inputs.size() + (info.gears_of != Gears::none);
  if (dataset.items.size() != expected) {
    return fail(ACL_ERROR_MODEL_INPUT_NOT_MATCH, "the model takes %zu inputs, the dataset has %zu", expected,
                dataset.items.size());
  }
  if (info.gears_of != Gears::none && dataset.gear.empty()) {
    return fail(ACL_ERROR_GE_DYNAMIC_BATCH_SIZE_INVALID,
                "the model is dynamic: set its size with aclmdlSetDynamicBatchSize, "
                "aclmdlSetDynamicHWSize or aclmdlSetInputDynamicDims before it runs");
  }
  run.inputs.resize(info.inputs.size());
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    ModelArgument& to = run.inputs[i];
    if (const aclError code = find_dims(info, dataset, i, &to.dims)) return code;
    const size_t needed = bytes_of(info.inputs[i].type, to.dims);
    if (const aclError code = take_buffer("input", info.inputs[i], dataset.items[i].buffer, needed, &to)) return code;
  }
  return ACL_SUCCESS;
}

aclError take_outputs(const ModelInfo& info, aclmdlDataset& dataset, Run& run) {
  if (dataset.items.size() != info.outputs.size()) {
    return fail(ACL_ERROR_MODEL_OUTPUT_NOT_MATCH, "the model gives %zu outputs, the dataset has %zu", info.outputs.size(),
                dataset.items.size());
  }
  const bool open = info.open();
  run.outputs.resize(info.outputs.size());
  for (size_t i = 0; i < info.outputs.size(); ++i) {
    DatasetItem& item = dataset.items[i];
    const ModelTensor& tensor = info.outputs[i];
    const bool left =
        open && Described<aclDataBuffer>::alive(item.buffer) && item.buffer->data == nullptr && item.buffer->size == 0;
    if (!left) {
      if (const aclError code = take_buffer("output", tensor, item.buffer, bytes_of(tensor.type, tensor.dims), &run.outputs[i]))
        return code;
    }
    run.buffers.push_back(item.buffer);
    if (!open) continue;
    item.description = owned<aclTensorDesc>();
    item.description->type = tensor.type;
    item.description->format = tensor.format;
    item.description->name = tensor.name;
    run.descriptions.push_back(item.description);
  }
  run.allocate = open ? &give_memory : nullptr;
  return ACL_SUCCESS;
}

aclError prepare(const char* entry, uint32_t id, const aclmdlDataset* input, aclmdlDataset* output, Run& run) {
  SOFTCANN_DESCRIBED(input, "input");
  SOFTCANN_DESCRIBED(output, "output");
  SOFTCANN_CONTEXT(context, entry);
  MODEL_OR_RETURN(entry_of, entry, id);
  run.model = entry_of->model;
  run.owner = context->device;
  run.device = context->device->id;
  run.id = id;
  const ModelInfo& info = run.model->info();
  if (const aclError code = take_inputs(info, *input, run)) return code;
  if (const aclError code = take_outputs(info, *output, run)) return code;
  run.threads = model_threads();
  return ACL_SUCCESS;
}

aclError execute(const char* entry, uint32_t id, const aclmdlDataset* input, aclmdlDataset* output) {
  Run run;
  if (const aclError code = prepare(entry, id, input, output, run)) return code;
  if (options().noop) return ACL_SUCCESS;
  const aclError code = run_now(run);
  if (code == ACL_SUCCESS) return ACL_SUCCESS;
  return fail(code == kRefused ? ACL_ERROR_RT_MODEL_EXECUTE : code, "%s: %s", entry, take_task_error().c_str());
}

aclError repeat_run(Task* self, bool skip) { return skip ? ACL_SUCCESS : run_now(*static_cast<RunTask*>(self)); }

aclError no_queues(const char* entry) {
  return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
              "%s: softcann has no queues between models and the host; load the model with "
              "aclmdlLoadFromFile or aclmdlLoadFromMem and run it with aclmdlExecute",
              entry);
}

aclError check_memory(const char* entry, const Model& model, const void* work, size_t work_size, const void* weights,
                      size_t weight_size) {
  struct Given {
    const char* what;
    const void* at;
    size_t size, needed;
  };
  const ModelInfo& info = model.info();
  for (const Given& given :
       {Given{"work", work, work_size, info.work_bytes}, Given{"weight", weights, weight_size, info.weight_bytes}}) {
    if (given.at == nullptr) continue;  // the runtime is to see to it
    if (given.size < given.needed) {
      return fail(ACL_ERROR_GE_PARAM_INVALID, "%s: the model needs %zu bytes of %s memory, %zu are given", entry, given.needed,
                  given.what, given.size);
    }
    if (const aclError code = check_device_range(given.at, given.size)) return code;
  }
  return ACL_SUCCESS;
}

aclError query(const ModelSource& source, size_t* work, size_t* weights) {
  SOFTCANN_REQUIRE(work, "workSize");
  SOFTCANN_REQUIRE(weights, "weightSize");
  std::shared_ptr<Model> model;
  if (const aclError code = open_model(source, true, &model)) return code;
  *work = model->info().work_bytes;
  *weights = model->info().weight_bytes;
  return ACL_SUCCESS;
}

}  // namespace

namespace softcann {

aclError execute_model_async(const char* entry, uint32_t id, const aclmdlDataset* input, aclmdlDataset* output,
                             aclrtStream stream) {
  auto task = std::make_unique<RunTask>();
  if (const aclError code = prepare(entry, id, input, output, *task)) return code;
  task->run = &run_once;
  task->repeat = &repeat_run;
  task->discard = [](Task* self) { delete static_cast<RunTask*>(self); };
  task->name = "aclmdlExecuteAsync";
  if (const aclError code = submit(stream, task.get(), kNeverInline)) return code;
  task.release();
  return ACL_SUCCESS;
}

aclError load_model_with(const char* entry, const ModelSource& source, uint32_t* id, const void* work, size_t work_size,
                         const void* weights, size_t weight_size) {
  if (const aclError code = load_model(entry, source, id)) return code;
  const auto loaded = find_model(entry, *id);
  const aclError code = check_memory(entry, *loaded->model, work, work_size, weights, weight_size);
  if (code != ACL_SUCCESS) unload_model(*id);
  return code;
}

}  // namespace softcann

extern "C" {

aclError aclmdlLoadFromFile(const char* modelPath, uint32_t* modelId) {
  SOFTCANN_ENTRY(aclmdlLoadFromFile);
  SOFTCANN_REQUIRE(modelPath, "modelPath");
  return load_model("aclmdlLoadFromFile", {modelPath, nullptr, 0}, modelId);
}

aclError aclmdlLoadFromMem(const void* model, size_t modelSize, uint32_t* modelId) {
  SOFTCANN_ENTRY(aclmdlLoadFromMem);
  SOFTCANN_REQUIRE(model, "model");
  return load_model("aclmdlLoadFromMem", {nullptr, model, modelSize}, modelId);
}

aclError aclmdlLoadFromFileWithMem(const char* modelPath, uint32_t* modelId, void* workPtr, size_t workSize, void* weightPtr,
                                   size_t weightSize) {
  SOFTCANN_ENTRY(aclmdlLoadFromFileWithMem);
  SOFTCANN_REQUIRE(modelPath, "modelPath");
  return load_model_with("aclmdlLoadFromFileWithMem", {modelPath, nullptr, 0}, modelId, workPtr, workSize, weightPtr, weightSize);
}

aclError aclmdlLoadFromMemWithMem(const void* model, size_t modelSize, uint32_t* modelId, void* workPtr, size_t workSize,
                                  void* weightPtr, size_t weightSize) {
  SOFTCANN_ENTRY(aclmdlLoadFromMemWithMem);
  SOFTCANN_REQUIRE(model, "model");
  return load_model_with("aclmdlLoadFromMemWithMem", {nullptr, model, modelSize}, modelId, workPtr, workSize, weightPtr,
                         weightSize);
}

SOFTCANN_REFUSED(aclmdlLoadFromFileWithQ, no_queues, const char*, uint32_t*, const uint32_t*, size_t, const uint32_t*, size_t)
SOFTCANN_REFUSED(aclmdlLoadFromMemWithQ, no_queues, const void*, size_t, uint32_t*, const uint32_t*, size_t, const uint32_t*,
                 size_t)

aclError aclmdlUnload(uint32_t modelId) {
  SOFTCANN_ENTRY(aclmdlUnload);
  return unload_model(modelId);
}

aclError aclmdlQuerySize(const char* fileName, size_t* workSize, size_t* weightSize) {
  SOFTCANN_ENTRY(aclmdlQuerySize);
  SOFTCANN_REQUIRE(fileName, "fileName");
  return query({fileName, nullptr, 0}, workSize, weightSize);
}

aclError aclmdlQuerySizeFromMem(const void* model, size_t modelSize, size_t* workSize, size_t* weightSize) {
  SOFTCANN_ENTRY(aclmdlQuerySizeFromMem);
  SOFTCANN_REQUIRE(model, "model");
  return query({nullptr, model, modelSize}, workSize, weightSize);
}

aclError aclmdlQueryExeOMDesc(const char* fileName, aclmdlExeOMDesc* mdlPartitionSize) {
  SOFTCANN_ENTRY(aclmdlQueryExeOMDesc);
  SOFTCANN_REQUIRE(fileName, "fileName");
  SOFTCANN_REQUIRE(mdlPartitionSize, "mdlPartitionSize");
  std::shared_ptr<Model> model;
  if (const aclError code = open_model({fileName, nullptr, 0}, true, &model)) return code;
  // The others are of programs for the chip, of which there are none.
  *mdlPartitionSize = {};
  mdlPartitionSize->workSize = model->info().work_bytes;
  mdlPartitionSize->weightSize = model->info().weight_bytes;
  mdlPartitionSize->modelDescSize = model->info().definition_bytes;
  return ACL_SUCCESS;
}

aclError aclmdlExecute(uint32_t modelId, const aclmdlDataset* input, aclmdlDataset* output) {
  SOFTCANN_ENTRY(aclmdlExecute);
  return execute("aclmdlExecute", modelId, input, output);
}

aclError aclmdlExecuteAsync(uint32_t modelId, const aclmdlDataset* input, aclmdlDataset* output, aclrtStream stream) {
  SOFTCANN_ENTRY(aclmdlExecuteAsync);
  return execute_model_async("aclmdlExecuteAsync", modelId, input, output, stream);
}
}
