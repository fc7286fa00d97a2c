// libgraph: texts and graphs.
#include "ge/graph_impl.h"

namespace ge {
namespace {

std::string_view view(const std::shared_ptr<std::string>& text) { return text ? std::string_view(*text) : std::string_view(); }

}  // namespace

AscendString::AscendString(const char* name) {
  if (name != nullptr) name_ = std::make_shared<std::string>(name);
}
AscendString::AscendString(const char* name, size_t length) {
  if (name != nullptr) name_ = std::make_shared<std::string>(name, length);
}

const char* AscendString::GetString() const { return name_ ? name_->c_str() : nullptr; }
size_t AscendString::GetLength() const { return view(name_).size(); }

// No text is the empty text.
bool AscendString::operator<(const AscendString& other) const { return view(name_) < view(other.name_); }
bool AscendString::operator>(const AscendString& other) const { return other < *this; }
bool AscendString::operator<=(const AscendString& other) const { return !(other < *this); }
bool AscendString::operator>=(const AscendString& other) const { return !(*this < other); }
bool AscendString::operator==(const AscendString& other) const { return view(name_) == view(other.name_); }
bool AscendString::operator!=(const AscendString& other) const { return !(*this == other); }

Graph::Graph(const char* name) : impl_(std::make_shared<GraphImpl>(name == nullptr ? "" : name)) {}

bool Graph::IsValid() const { return impl_ != nullptr && !impl_->onnx().empty(); }

graphStatus Graph::GetName(AscendString& name) const {
  if (impl_ == nullptr) return GRAPH_FAILED;
  name = AscendString(impl_->name().c_str());
  return GRAPH_SUCCESS;
}

GraphImpl& GraphImpl::made(Graph& graph) {
  if (graph.impl_ == nullptr) graph.impl_ = std::make_shared<GraphImpl>("graph");
  return *graph.impl_;
}

}  // namespace ge
