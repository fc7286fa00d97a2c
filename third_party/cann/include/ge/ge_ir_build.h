// Graphs to offline models (libge_compiler).
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "graph/graph.h"

namespace ge {

struct ModelBufferData {
  std::shared_ptr<uint8_t> data = nullptr;
  uint64_t length = 0;
};

using AscendStrings = std::map<AscendString, AscendString>;

// Options for all builds of the process, until aclgrphBuildFinalize.
graphStatus aclgrphBuildInitialize(AscendStrings& global_options);
void aclgrphBuildFinalize();
graphStatus aclgrphBuildModel(const Graph& graph, const AscendStrings& build_options, ModelBufferData& model);
// Writes <output_file>.om.
graphStatus aclgrphSaveModel(const char* output_file, const ModelBufferData& model);

}  // namespace ge
