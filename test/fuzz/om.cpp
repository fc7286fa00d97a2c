// .om containers: the header and table of partitions, and what the definition says.
#include <cstdint>
#include <cstring>

#include "model/container.h"
#include "model/definition.h"
#include "rt/models/model.h"

using namespace softcann;

namespace {

void open(const char* data, size_t size) {
  try {
    ModelSource source{};
    source.memory = data;
    source.bytes = size;
    const model::Container made = model::open_container(source, true);
    model::read_definition(made.definition);
  } catch (const Error&) {
  }
}

}  // namespace

// The first byte says whether the rest is a file, a body to which a right header is made, or a definition.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 3 == 0) {
    open(rest.data(), rest.size());
  } else if (data[0] % 3 == 1) {
    constexpr uint32_t head[3] = {0x444F4D49, 256, 0};
    std::string file(256, '\0');
    std::memcpy(file.data(), head, sizeof head);
    const auto length = static_cast<uint32_t>(rest.size());
    std::memcpy(file.data() + sizeof head + 64, &length, sizeof length);
    file += rest;
    open(file.data(), file.size());
  } else {
    try {
      const model::Definition made = model::read_definition(rest);
      for (const auto& graph : made.graphs) {
        for (const auto& op : graph.ops) {
          model::integers_of(op.attributes, "i");
          model::text_of(op.attributes, "s");
        }
      }
    } catch (const Error&) {
    }
  }
  return 0;
}
