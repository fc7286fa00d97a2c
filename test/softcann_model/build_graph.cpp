// Builds an ONNX model into an .om as programs of CANN do: build_graph MODEL OUTPUT [global:name=value | name=value]...
// Prints the step that failed, its code, and the text of the error.
#include <acl/acl.h>
#include <ge/ge_ir_build.h>
#include <parser/onnx_parser.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

static int check(const char* step, ge::graphStatus code) {
  if (code != ge::GRAPH_SUCCESS) std::printf("%s: %u: %s\n", step, code, aclGetRecentErrMsg());
  return code != ge::GRAPH_SUCCESS;
}

int main(int count, char** words) {
  std::map<ge::AscendString, ge::AscendString> global, options;
  bool initializes = true;
  for (int i = 3; i < count; ++i) {
    std::string word = words[i];
    if (word == "no-initialize") {
      initializes = false;
      continue;
    }
    auto& to = word.rfind("global:", 0) == 0 ? global : options;
    if (&to == &global) word = word.substr(7);
    const size_t mark = word.find('=');
    to[word.substr(0, mark).c_str()] = word.substr(mark + 1).c_str();
  }
  std::ifstream file(words[1], std::ios::binary);
  const std::string model(std::istreambuf_iterator<char>(file), {});
  ge::Graph graph("network"), empty;
  ge::AscendString name;
  if (empty.IsValid() || graph.IsValid() || graph.GetName(name) != 0 || name != ge::AscendString("network")) return 2;
  if (check("parse", ge::aclgrphParseONNXFromMem(model.data(), model.size(), {}, graph))) return 1;
  if (initializes && check("initialize", ge::aclgrphBuildInitialize(global))) return 1;
  ge::ModelBufferData made;
  if (check("build", ge::aclgrphBuildModel(graph, options, made)) || check("save", ge::aclgrphSaveModel(words[2], made)))
    return 1;
  ge::aclgrphBuildFinalize();
  std::printf("built %llu\n", static_cast<unsigned long long>(made.length));
  return ge::aclgrphBuildModel(empty, options, made) == ge::GRAPH_PARAM_INVALID ? 0 : 3;
}
