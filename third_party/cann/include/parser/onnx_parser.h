// ONNX models as graphs (libfmk_onnx_parser).
#pragma once

#include <cstddef>
#include <map>

#include "graph/graph.h"

namespace ge {

graphStatus aclgrphParseONNX(const char* model_file, const std::map<AscendString, AscendString>& parser_params, Graph& graph);
graphStatus aclgrphParseONNXFromMem(const char* buffer, size_t size, const std::map<AscendString, AscendString>& parser_params,
                                    Graph& graph);

}  // namespace ge
