// libge_compiler: builds graphs into offline models.
#include "ge/ge_ir_build.h"

#include <cstring>
#include <fstream>
#include <mutex>

#include "ge/converter.h"
#include "ge/graph_impl.h"

namespace compiler = softcann::compiler;

namespace {

// CANN's name of an option and atc's.
struct Option {
  const char* name;
  const char* atc;
};
constexpr Option known_options[] = {
    {"ge.socVersion", "soc_version"},
    {"ge.exec.precision_mode", "precision_mode"},
    {"ge.exec.precision_mode_v2", "precision_mode_v2"},
    {"ge.exec.modify_mixlist", "modify_mixlist"},
    {"ge.opSelectImplmode", "op_select_implmode"},
    {"ge.optypelistForImplmode", "optypelist_for_implmode"},
    {"ge.INPUT_NODES_SET_FP16", "input_fp16_nodes"},
    {"ge.insertOpFile", "insert_op_conf"},
    {"ge.fusionSwitchFile", "fusion_switch_file"},
    {"ge.dynamicBatchSize", "dynamic_batch_size"},
    {"ge.dynamicImageSize", "dynamic_image_size"},
    {"ge.dynamicDims", "dynamic_dims"},
    {"input_format", "input_format"},
    {"input_shape", "input_shape"},
    {"input_shape_range", "input_shape_range"},
    {"dynamic_batch_size", "dynamic_batch_size"},
    {"dynamic_image_size", "dynamic_image_size"},
    {"dynamic_dims", "dynamic_dims"},
    {"out_nodes", "out_nodes"},
    {"output_type", "output_type"},
    {"log", "log"},
};

struct Globals {
  std::mutex mutex;
  bool initialized = false;
  std::map<std::string, std::string> options;  // of atc
};
Globals& globals() {
  static auto* instance = new Globals;
  return *instance;
}

ge::graphStatus translate(const char* entry, const ge::AscendStrings& given, std::map<std::string, std::string>& to) {
  for (const auto& [name, value] : given) {
    const char* text = name.GetString() == nullptr ? "" : name.GetString();
    const Option* found = nullptr;
    for (const Option& option : known_options) {
      if (std::strcmp(option.name, text) == 0) found = &option;
    }
    if (found == nullptr) {
      return ge::refused(ge::GRAPH_PARAM_INVALID, std::string(entry) + ": the option '" + text + "' is not served: leave it out");
    }
    if (value.GetLength() != 0) to[found->atc] = value.GetString();
  }
  return ge::GRAPH_SUCCESS;
}

}  // namespace

namespace ge {

SOFTCANN_API graphStatus aclgrphBuildInitialize(AscendStrings& global_options) {
  std::map<std::string, std::string> options;
  if (const graphStatus code = translate("aclgrphBuildInitialize", global_options, options)) return code;
  Globals& all = globals();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.options = std::move(options);
  all.initialized = true;
  return GRAPH_SUCCESS;
}

SOFTCANN_API void aclgrphBuildFinalize() {
  Globals& all = globals();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.options.clear();
  all.initialized = false;
}

SOFTCANN_API graphStatus aclgrphBuildModel(const Graph& graph, const AscendStrings& build_options, ModelBufferData& model) {
  const GraphImpl* impl = GraphImpl::of(graph);
  if (impl == nullptr || impl->onnx().empty()) {
    return refused(GRAPH_PARAM_INVALID, "aclgrphBuildModel: the graph is empty: fill it by aclgrphParseONNX");
  }
  std::map<std::string, std::string> options;
  {
    Globals& all = globals();
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (!all.initialized) return refused(GRAPH_FAILED, "aclgrphBuildModel: call aclgrphBuildInitialize before");
    options = all.options;
  }
  if (const graphStatus code = translate("aclgrphBuildModel", build_options, options)) return code;
  if (options.count("soc_version") == 0) options["soc_version"] = aclrtGetSocName();
  try {
    const std::string made = compiler::convert(impl->onnx(), options);
    model.data = std::shared_ptr<uint8_t>(new uint8_t[made.size()], [](const uint8_t* bytes) { delete[] bytes; });
    model.length = made.size();
    std::memcpy(model.data.get(), made.data(), made.size());
    return GRAPH_SUCCESS;
  } catch (const std::exception& error) {
    return refused(GRAPH_FAILED, "aclgrphBuildModel of '" + impl->name() + "': " + error.what());
  }
}

SOFTCANN_API graphStatus aclgrphSaveModel(const char* output_file, const ModelBufferData& model) {
  if (output_file == nullptr || *output_file == 0 || model.data == nullptr || model.length == 0) {
    return refused(GRAPH_PARAM_INVALID, std::string("aclgrphSaveModel: there is no ") + (model.data ? "file's name" : "model"));
  }
  const std::string path = std::string(output_file) + ".om";
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(model.data.get()), static_cast<std::streamsize>(model.length));
  file.close();
  return file ? GRAPH_SUCCESS : refused(GRAPH_FAILED, "aclgrphSaveModel: '" + path + "' cannot be written");
}

}  // namespace ge
