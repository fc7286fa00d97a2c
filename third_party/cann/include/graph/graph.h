// A model as a graph (libgraph).
#pragma once

#include <cstdint>
#include <memory>

#include "graph/ascend_string.h"

namespace ge {

using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
constexpr graphStatus GRAPH_PARAM_INVALID = 50331649;

class GraphImpl;

class __attribute__((visibility("default"))) Graph {
 public:
  Graph() = default;
  ~Graph() = default;
  explicit Graph(const char* name);

  bool IsValid() const;
  graphStatus GetName(AscendString& name) const;

 private:
  friend class GraphImpl;
  std::shared_ptr<GraphImpl> impl_;
};

}  // namespace ge
