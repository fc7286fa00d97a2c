// What a ge::Graph holds: an ONNX model, which is converted when it is built.
#pragma once

#include <string>

#include "graph/graph.h"
#include "rt/runtime.h"

namespace ge {

// Keeps the text for aclGetRecentErrMsg.
inline graphStatus refused(graphStatus code, const std::string& text) {
  softcann::fail(static_cast<int>(code), "%s", text.c_str());
  return code;
}

class SOFTCANN_API GraphImpl {
 public:
  explicit GraphImpl(std::string name) : name_(std::move(name)) {}

  // Null for a graph that was not named.
  static GraphImpl* of(const Graph& graph) { return graph.impl_.get(); }
  static GraphImpl& made(Graph& graph);

  const std::string& name() const { return name_; }
  const std::string& onnx() const { return onnx_; }  // serialized; empty: nothing was parsed
  void set_onnx(std::string onnx) { onnx_ = std::move(onnx); }

 private:
  std::string name_, onnx_;
};

}  // namespace ge
