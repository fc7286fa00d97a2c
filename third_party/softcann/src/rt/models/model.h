// Models, between libascendcl, which clients call (aclmdl*), and libge_executor, which reads .om files and computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#pragma GCC visibility push(default)
#include "acl/acl_mdl.h"
#pragma GCC visibility pop
#include "rt/runtime.h"

namespace softcann {

// Note [Models]
// libascendcl keeps what clients hold: descriptions, datasets, numbers of models. It knows no torch, so what reads a file and
// computes is in libge_executor, which it loads when a client names the first model. The two meet at this header, which is no
// part of CANN's interface.

// What the network takes where a client gives raw pictures with dynamic AIPP.
struct NetworkInput {
  std::vector<int64_t> dims;  // N, C, H, W
  bool channels_last = false;
  size_t parameters = 0;  // the input with AIPP's parameters
};

// What a client may ask about an input or output. A dimension that is not fixed is -1.
struct ModelTensor {
  std::string name;
  aclDataType type = ACL_DT_UNDEFINED;
  aclFormat format = ACL_FORMAT_ND;
  std::vector<int64_t> dims;
  std::vector<std::pair<int64_t, int64_t>> range;  // one for each dimension, -1: no limit; empty: not known
  std::map<std::string, std::string> aipp;         // fields of its static AIPP by their names in the configuration; empty: none
  std::optional<NetworkInput> network;             // with dynamic AIPP: then dims and type are those of the raw bytes
  std::optional<size_t> parameters_of;             // of AIPP's parameters: the input with the pictures
};

// The dims of all outputs by gear, what the file says and what runs have told; empty: not known yet.
struct GearOutputs {
  std::mutex mutex;
  std::vector<std::vector<std::vector<int64_t>>> dims;
};

enum class Gears : uint8_t { none, batch, image, dims };

// A gear is one of the sizes that a dynamic model was made for: a batch, a height and a width, or every open dimension of
// all inputs in order.
struct SOFTCANN_API ModelInfo {
  std::string name;
  std::vector<ModelTensor> inputs, outputs;
  Gears gears_of = Gears::none;
  std::vector<std::vector<int64_t>> gears;
  size_t work_bytes = 0, weight_bytes = 0, definition_bytes = 0;
  std::shared_ptr<GearOutputs> gear_outputs = std::make_shared<GearOutputs>();
  std::map<std::string, std::map<std::string, std::string>> attributes;  // texts by operator, for aclmdlGetOpAttr

  bool open() const;  // whether a dimension is left to the call, without gears
  // The dims of input `index` in a gear.
  std::vector<int64_t> input_dims(size_t index, const std::vector<int64_t>& gear) const;
};

// Bytes of a tensor of these dims; 0 when a dimension is open.
size_t bytes_of(aclDataType type, const std::vector<int64_t>& dims);

// One tensor of a call. Its memory is where kernels may touch it.
struct ModelArgument {
  void* data = nullptr;
  size_t bytes = 0;
  std::vector<int64_t> dims;  // of an output: filled in by the run
};

struct ModelCall {
  std::vector<ModelArgument> inputs, outputs;
  // Where outputs go whose size the client left to the run (data is null); gives device memory that kernels may touch.
  aclError (*allocate)(ModelCall& call, size_t output, size_t bytes) = nullptr;
  uint16_t threads = 0;  // how many the kernels may use; 0: the running thread's own setting
  uint32_t id = 0;       // the model's number, of a client's call
  int device = -1;       // that it runs on
};

// Can be run by several threads at once.
class Model {
 public:
  explicit Model(ModelInfo info) : info_(std::make_shared<const ModelInfo>(std::move(info))) {}
  virtual ~Model() = default;
  const ModelInfo& info() const { return *info_; }
  // For those who ask about a model that may be unloaded meanwhile.
  const std::shared_ptr<const ModelInfo>& shared_info() const { return info_; }
  // The dims of all outputs in a gear, by its place among info().gears. Where the file does not say them, the model is run once
  // on zeros.
  virtual std::vector<std::vector<int64_t>> gear_outputs(size_t gear) const = 0;
  // ACL_SUCCESS, or the code with which a stream's task ends, its text given to task_error().
  virtual aclError run(ModelCall& call) const = 0;

 private:
  std::shared_ptr<const ModelInfo> info_;
};

// Where a model comes from: a file, or memory of the client's.
struct ModelSource {
  const char* path = nullptr;
  const void* memory = nullptr;
  size_t bytes = 0;
  size_t part = whole;  // of a bundle: the model of that number

  static constexpr size_t whole = ~size_t{0};
};

// Reads all of a model and checks it; with `describe` only what info() has. The code and its text as fail() records them.
using OpenModel = aclError (*)(const ModelSource& source, bool describe, std::shared_ptr<Model>* model);
// How many models a bundle holds. The code and its text likewise.
using CountModels = aclError (*)(const ModelSource& source, size_t* count);
using KernelThreads = uint16_t (*)();  // what ModelCall::threads of a call from this thread is to be
constexpr const char* open_model_symbol = "softcann_open_model";
constexpr const char* count_models_symbol = "softcann_count_models";
constexpr const char* kernel_threads_symbol = "softcann_kernel_threads";

}  // namespace softcann
