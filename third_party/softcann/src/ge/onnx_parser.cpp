// libfmk_onnx_parser: takes ONNX models. They are read where they are built, by atc; here the frame of the message is checked.
#include "parser/onnx_parser.h"

#include <fstream>
#include <iterator>

#include "ge/graph_impl.h"

using ge::refused;

namespace {

constexpr uint32_t graph_field = 7;  // of onnx.ModelProto

bool read_varint(std::string_view& from, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(from.front());
    from.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return true;
  }
  return false;
}

// Whether the bytes are fields of protobuf's, one after the other up to the end, with a graph among them.
bool is_model(std::string_view bytes) {
  bool has_graph = false;
  while (!bytes.empty()) {
    uint64_t key = 0, size = 0;
    if (!read_varint(bytes, key) || key >> 3 == 0) return false;
    switch (key & 7) {
      case 0:
        if (!read_varint(bytes, size)) return false;
        size = 0;
        break;
      case 1:
        size = 8;
        break;
      case 2:
        if (!read_varint(bytes, size)) return false;
        break;
      case 5:
        size = 4;
        break;
      default:
        return false;
    }
    if (size > bytes.size()) return false;
    bytes.remove_prefix(size);
    has_graph |= key >> 3 == graph_field;
  }
  return has_graph;
}

ge::graphStatus parse(std::string model, const std::map<ge::AscendString, ge::AscendString>& parameters, ge::Graph& graph) {
  if (!parameters.empty()) {
    const char* name = parameters.begin()->first.GetString();
    return refused(ge::GRAPH_PARAM_INVALID,
                   std::string("aclgrphParseONNX: the parameter '") + (name ? name : "") + "' is not served: leave it out");
  }
  if (!is_model(model)) {
    return refused(ge::GRAPH_FAILED, "aclgrphParseONNX: these " + std::to_string(model.size()) + " bytes are no ONNX model");
  }
  ge::GraphImpl::made(graph).set_onnx(std::move(model));
  return ge::GRAPH_SUCCESS;
}

}  // namespace

namespace ge {

SOFTCANN_API graphStatus aclgrphParseONNXFromMem(const char* buffer, size_t size,
                                                 const std::map<AscendString, AscendString>& parser_params, Graph& graph) {
  if (buffer == nullptr || size == 0) {
    return refused(GRAPH_PARAM_INVALID, "aclgrphParseONNXFromMem: there is no model");
  }
  return parse(std::string(buffer, size), parser_params, graph);
}

SOFTCANN_API graphStatus aclgrphParseONNX(const char* model_file, const std::map<AscendString, AscendString>& parser_params,
                                          Graph& graph) {
  const std::string path = model_file == nullptr ? "" : model_file;
  std::ifstream file(path, std::ios::binary);
  if (!file) return refused(GRAPH_PARAM_INVALID, "aclgrphParseONNX: '" + path + "' cannot be opened");
  return parse(std::string(std::istreambuf_iterator<char>(file), {}), parser_params, graph);
}

}  // namespace ge
