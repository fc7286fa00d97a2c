// libge_executor's entries: opens a model, runs it.
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "model/dynamic_aipp.h"
#include "model/interpreter.h"
#include "model/observer.h"
#include "model/prepack.h"
#include "model/wire.h"
#include "op/model_memory.h"
#include "op/threads.h"

namespace softcann::model {
namespace {

constexpr int64_t known_format = 1;  // of softcann's own part of the definition

void fill_ports(const std::vector<Port>& ports, std::vector<ModelTensor>& to) {
  for (const Port& port : ports) to.push_back(port.tensor);
}

// "vN low~high,low~high,..." of the inputs that have free dimensions.
void read_ranges(const Attributes& attributes, const std::vector<std::string>& ports, std::vector<ModelTensor>& inputs) {
  for (const std::string& line : texts_of(attributes, "shape_range")) {
    const std::vector<std::string_view> words = split(line, ' ');
    size_t index = 0;
    while (index < inputs.size() && (words.size() != 2 || split(ports[index], ' ')[0] != words[0])) ++index;
    if (index == inputs.size()) damaged("the range '%s'", line.substr(0, 80).c_str());
    for (const std::string_view part : split(words[1], ',')) {
      const size_t mark = part.find('~');
      if (mark == std::string_view::npos) damaged("the range '%s'", line.substr(0, 80).c_str());
      inputs[index].range.emplace_back(whole_number(part.substr(0, mark)), whole_number(part.substr(mark + 1)));
    }
    if (inputs[index].range.size() != inputs[index].dims.size())
      damaged("the range '%s' has not the rank", line.substr(0, 80).c_str());
  }
}

// A field of a line of AIPP, "name=value".
std::pair<std::string, std::string> aipp_field(std::string_view word) {
  const size_t mark = word.find('=');
  if (mark == std::string_view::npos) damaged("the AIPP field '%s'", std::string(word.substr(0, 80)).c_str());
  return {std::string(word.substr(0, mark)), std::string(word.substr(mark + 1))};
}

// The input becomes raw bytes, and the model gets one more input, for the parameters.
void set_dynamic_aipp(std::vector<ModelTensor>& inputs, size_t index, int64_t most_bytes) {
  ModelTensor& input = inputs[index];
  const bool open = std::any_of(input.dims.begin(), input.dims.end(), [](int64_t dim) { return dim <= 0; });
  if (input.dims.size() != 4 || open || input.dims[0] > 65535 || most_bytes <= 0)
    damaged("dynamic AIPP of '%s'", readable(input.name).c_str());
  NetworkInput network{input.dims, input.format == ACL_FORMAT_NHWC, inputs.size()};
  if (network.channels_last) network.dims = {input.dims[0], input.dims[3], input.dims[1], input.dims[2]};
  input.type = ACL_UINT8;
  input.format = ACL_FORMAT_ND;
  input.dims = {most_bytes};
  ModelTensor parameters;
  parameters.name = ACL_DYNAMIC_AIPP_NAME;
  parameters.type = ACL_UINT8;
  parameters.dims = {static_cast<int64_t>(aipp_bytes(static_cast<size_t>(network.dims[0])))};
  parameters.parameters_of = index;
  input.network = std::move(network);
  inputs.push_back(std::move(parameters));
}

// "input static field=number ..." or "input dynamic max_src_image_size=bytes"; a field that is no number is for people.
void read_aipp_lines(const Attributes& attributes, std::vector<ModelTensor>& inputs) {
  const size_t count = inputs.size();
  for (const std::string& line : texts_of(attributes, "aipp")) {
    const std::vector<std::string_view> words = split(line, ' ');
    const int64_t index = words.size() < 2 ? -1 : whole_number(words[0]);
    if (index < 0 || static_cast<size_t>(index) >= count) damaged("AIPP of input %lld", static_cast<long long>(index));
    ModelTensor& input = inputs[static_cast<size_t>(index)];
    if (input.network || !input.aipp.empty()) damaged("AIPP of input %lld, twice", static_cast<long long>(index));
    std::map<std::string, std::string> fields;
    for (size_t i = 2; i < words.size(); ++i) fields.insert(aipp_field(words[i]));
    if (words[1] == "dynamic") {
      set_dynamic_aipp(inputs, static_cast<size_t>(index), whole_number(fields["max_src_image_size"]));
    } else {
      input.aipp = std::move(fields);
    }
  }
}

size_t open_dimensions(const ModelInfo& info) {
  size_t count = 0;
  for (const ModelTensor& input : info.inputs) {
    for (const int64_t dim : input.dims) count += dim < 0;
  }
  return count;
}

void read_gears(const Attributes& attributes, ModelInfo& info) {
  size_t numbers = 1;
  for (const int64_t batch : integers_of(attributes, "dynamic_batch")) info.gears.push_back({batch});
  if (!info.gears.empty()) info.gears_of = Gears::batch;
  for (const auto& [name, kind, count] :
       {std::tuple("dynamic_image", Gears::image, size_t{2}), std::tuple("dynamic_dims", Gears::dims, open_dimensions(info))}) {
    const std::vector<std::string>& lines = texts_of(attributes, name);
    if (lines.empty()) continue;
    if (info.gears_of != Gears::none) damaged("gears of two kinds");
    info.gears_of = kind;
    numbers = count;
    for (const std::string& line : lines) info.gears.push_back(read_dims(line));
  }
  if (info.gears.size() > ACL_MAX_BATCH_NUM) damaged("%zu gears", info.gears.size());
  for (const std::vector<int64_t>& gear : info.gears) {
    if (gear.size() != numbers) damaged("a gear of %zu numbers, %zu are expected", gear.size(), numbers);
    for (const int64_t size : gear) {
      if (size <= 0) damaged("a gear of %lld", static_cast<long long>(size));
    }
  }
}

void read_gear_outputs(const Attributes& attributes, ModelInfo& info) {
  info.gear_outputs->dims.resize(info.gears.size());
  const std::vector<std::string>& lines = texts_of(attributes, "gear_outputs");
  if (lines.empty()) return;
  if (lines.size() != info.gears.size()) damaged("%zu gears, outputs of %zu", info.gears.size(), lines.size());
  for (size_t gear = 0; gear < lines.size(); ++gear) {
    auto& outputs = info.gear_outputs->dims[gear];
    for (const std::string_view dims : split(lines[gear], ';')) outputs.push_back(read_dims(dims));
    if (outputs.size() != info.outputs.size()) damaged("the outputs '%s' of a gear", lines[gear].substr(0, 80).c_str());
  }
}

void read_attributes(const GraphDefinition& graph, ModelInfo& info) {
  for (const OpDefinition& op : graph.ops) {
    auto& texts = info.attributes[op.name];
    for (const auto& [name, attribute] : op.attributes) {
      if (attribute.kind == Attribute::Kind::text) texts[name] = attribute.text;
      if (name == "args" || name == "outputs" || name == "free") continue;  // lists of the program, which nobody asks for by name
      if (attribute.kind == Attribute::Kind::list && attribute.integers.empty()) {
        // As CANN gives the names an operator was made of: each with its length before it.
        for (const std::string& one : attribute.texts) texts[name] += "[" + std::to_string(one.size()) + "]" + one;
      }
    }
  }
}

ModelInfo read_info(const Definition& definition, const Container& container, const Graph& ports) {
  ModelInfo info;
  info.name = definition.name;
  fill_ports(ports.inputs, info.inputs);
  fill_ports(ports.outputs, info.outputs);
  const GraphDefinition& graph = definition.graphs.front();
  read_ranges(graph.attributes, texts_of(graph.attributes, "inputs"), info.inputs);
  read_aipp_lines(graph.attributes, info.inputs);
  read_gears(graph.attributes, info);
  read_gear_outputs(graph.attributes, info);
  const int64_t work = integer_of(graph.attributes, "workspace_bytes", 0);
  if (work < 0) damaged("a workspace of %lld bytes", static_cast<long long>(work));
  info.work_bytes = static_cast<size_t>(work);
  info.weight_bytes = container.weights.size();
  info.definition_bytes = container.definition.size();
  read_attributes(graph, info);
  return info;
}

// Whether it is softcann's, of this version, for this chip.
void check_origin(const Definition& definition, bool intact) {
  const int64_t format = integer_of(definition.attributes, "softcann_format", 0);
  if (format == 0) {
    refuse(ACL_ERROR_FEATURE_UNSUPPORTED,
           "this .om was not made by softcann's atc: CANN's own holds programs for the chip, which "
           "only the chip runs. Convert the model again with the atc of softcann (python -m softcann atc)");
  }
  if (!intact)
    refuse(ACL_ERROR_GE_PARAM_INVALID, "the checksum is not that of the content: the file was damaged. Copy or convert it again");
  if (format != known_format) {
    refuse(ACL_ERROR_FEATURE_UNSUPPORTED,
           "the .om is of format %lld, this softcann reads format %lld: convert the model again with "
           "its atc",
           static_cast<long long>(format), static_cast<long long>(known_format));
  }
  const std::string& soc = text_of(definition.attributes, "soc_version");
  if (soc != options().soc) {
    refuse(ACL_ERROR_RT_SOC_VERSION,
           "the .om was made for %s, the device is %s: convert with --soc_version=%s, or set SOFTCANN_SOC=%s",
           soc.substr(0, 64).c_str(), options().soc.c_str(), options().soc.c_str(), soc.substr(0, 64).c_str());
  }
}

at::Tensor wrap(const ModelArgument& argument, const std::vector<int64_t>& dims, at::ScalarType type) {
  return at::from_blob(argument.data, dims, at::TensorOptions().dtype(type));
}

class LoadedModel final : public Model {
 public:
  LoadedModel(ModelInfo info, Program program) : Model(std::move(info)), program_(std::move(program)) {}

  // What other models have is in use while they run only.
  ~LoadedModel() override { op::trim_model_memory(); }

  aclError run(ModelCall& call) const override {
    try {
      const op::ComputeScope scope(call.threads);
      const op::MemoryScope memory(op::MemorySource::model);
      const std::unique_ptr<Observer> observer = observe(call, info());
      Machine machine(program_, observer.get());
      std::vector<at::IValue> inputs;
      for (size_t i = 0; i < program_.graphs[0].inputs.size(); ++i) inputs.emplace_back(input_of(call, i));
      const std::vector<at::IValue> outputs = run(machine, observer.get(), call, std::move(inputs));
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (const aclError code = write(call, i, tensor_of(outputs[i]))) return code;
      }
      return ACL_SUCCESS;
    } catch (const Error& error) {
      return report(error.what(), task_code(error.kind()));
    } catch (const c10::Error& error) {
      return report(error.what_without_backtrace(), kRefused);
    } catch (const std::bad_alloc& error) {
      return report(error.what(), task_code(ErrorKind::out_of_memory));
    } catch (const std::exception& error) {
      return report(error.what(), kRefused);
    }
  }

  std::vector<std::vector<int64_t>> gear_outputs(size_t gear) const override {
    GearOutputs& known = *info().gear_outputs;
    const std::lock_guard<std::mutex> lock(known.mutex);
    if (known.dims.at(gear).empty()) known.dims[gear] = find_outputs(info().gears[gear]);
    return known.dims[gear];
  }

 private:
  std::vector<at::IValue> run(Machine& machine, Observer* observer, const ModelCall& call, std::vector<at::IValue> inputs) const {
    try {
      return machine.run(0, std::move(inputs));
    } catch (...) {
      if (observer != nullptr) observer->fail();
      dump_failure(machine, call, info());
      throw;
    }
  }

  aclError report(const char* cause, aclError code) const {
    task_error("model '%s': %s", readable(info().name).c_str(), readable(cause).c_str());
    return code;
  }

  at::Tensor input_of(const ModelCall& call, size_t index) const {
    const at::ScalarType type = program_.graphs[0].inputs[index].type;
    const ModelTensor& tensor = info().inputs[index];
    if (!tensor.network) return wrap(call.inputs[index], call.inputs[index].dims, type);
    return processed(tensor, call.inputs[index], call.inputs[tensor.network->parameters], type);
  }

  aclError write(ModelCall& call, size_t index, const at::Tensor& made) const {
    ModelArgument& to = call.outputs[index];
    const ModelTensor& promised = info().outputs[index];
    const at::ScalarType type = program_.graphs[0].outputs[index].type;
    TORCH_CHECK(made.scalar_type() == type, "output '", promised.name, "' is ", made.scalar_type(), ", the model promises ",
                type);
    to.dims = made.sizes().vec();
    const size_t bytes = made.nbytes();
    if (to.data == nullptr && bytes != 0 && call.allocate != nullptr) {
      if (const aclError code = call.allocate(call, index, bytes)) return code;
    }
    TORCH_CHECK(bytes <= to.bytes, "output '", promised.name, "' has the dims ", made.sizes(), " and ", bytes,
                " bytes, its buffer has ", to.bytes);
    if (bytes != 0) wrap(to, to.dims, type).copy_(made);
    return ACL_SUCCESS;
  }

  // None when the program cannot run on zeros.
  std::vector<std::vector<int64_t>> find_outputs(const std::vector<int64_t>& gear) const {
    std::vector<std::vector<int64_t>> dims;
    try {
      const op::ComputeScope scope(op::threads_of_launch());
      const op::MemoryScope memory(op::MemorySource::model);
      Machine machine(program_);
      std::vector<at::IValue> inputs;
      for (size_t i = 0; i < program_.graphs[0].inputs.size(); ++i) {
        inputs.emplace_back(at::zeros(info().input_dims(i, gear), at::TensorOptions().dtype(program_.graphs[0].inputs[i].type)));
      }
      for (const at::IValue& output : machine.run(0, std::move(inputs))) dims.push_back(tensor_of(output).sizes().vec());
    } catch (const std::exception& error) {
      fail(ACL_ERROR_GE_GET_TENSOR_INFO, "model '%s': what its outputs are like only a run tells: %s",
           readable(info().name).c_str(), readable(error.what()).c_str());
      dims.clear();
    }
    return dims;
  }

  Program program_;
};

std::shared_ptr<Model> open(const ModelSource& source, bool describe) {
  const Container container = open_container(source, describe);
  Definition definition;
  try {
    definition = read_definition(container.definition);
    check_origin(definition, container.intact);
    const Graph ports = read_ports(definition);
    ModelInfo info = read_info(definition, container, ports);
    Program program;
    // What the file does not say, a run tells; for that the model's bytes must stay.
    const auto is_unknown = [](const auto& outputs) { return outputs.empty(); };
    const auto& known = info.gear_outputs->dims;
    if (describe && std::any_of(known.begin(), known.end(), is_unknown)) return open(source, false);
    if (!describe) {
      program = make_program(definition, container);
      const op::ComputeScope scope(op::threads_of_launch());
      const op::MemoryScope memory(op::MemorySource::torch);
      prepack(program);
    }
    return std::make_shared<LoadedModel>(std::move(info), std::move(program));
  } catch (const ReadError&) {
    throw;
  } catch (const Error& error) {
    refuse(ACL_ERROR_GE_EXEC_LOAD_MODEL_PARTITION_FAILED, "the definition is damaged: %s", error.what());
  }
}

// What `read` throws, as a code with a text.
template <class Read>
aclError read_or_fail(const ModelSource& source, Read read) {
  const char* from = source.path != nullptr ? source.path : "the memory";
  try {
    read();
    return ACL_SUCCESS;
  } catch (const ReadError& error) {
    return fail(error.code(), "model of %s: %s", from, readable(error.what()).c_str());
  } catch (const c10::Error& error) {
    return fail(ACL_ERROR_GE_LOAD_MODEL, "model of %s: %s", from, readable(error.what_without_backtrace()).c_str());
  } catch (const std::bad_alloc&) {
    return fail(ACL_ERROR_GE_MEMORY_ALLOCATION, "model of %s: there is not enough memory", from);
  } catch (const std::exception& error) {
    return fail(ACL_ERROR_GE_LOAD_MODEL, "model of %s: %s", from, readable(error.what()).c_str());
  }
}

}  // namespace
}  // namespace softcann::model

extern "C" {

SOFTCANN_API aclError softcann_count_models(const softcann::ModelSource& source, size_t* count) {
  return softcann::model::read_or_fail(source, [&] { *count = softcann::model::count_models(source); });
}

SOFTCANN_API aclError softcann_open_model(const softcann::ModelSource& source, bool describe,
                                          std::shared_ptr<softcann::Model>* model) {
  return softcann::model::read_or_fail(source, [&] { *model = softcann::model::open(source, describe); });
}

SOFTCANN_API uint16_t softcann_kernel_threads() { return softcann::op::threads_of_launch(); }
}
