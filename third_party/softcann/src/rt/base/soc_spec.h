// What the device says it is: figures by SoC name.
#pragma once

#include <cstdint>
#include <string>

namespace softcann {

// Bytes of a core's own memories; 0: not known.
struct CoreMemory {
  int64_t l0a, l0b, l0c, l1, ub;
};

struct Persona {
  int32_t cube_cores;
  int32_t vector_cores;
  int64_t l2_bytes;
  int64_t architecture;  // ACL_DEV_ATTR_NPU_ARCH
  bool bfloat16;
  bool inf_nan;
  const char* family;  // what CANN calls its short SoC version
  CoreMemory core;
};

const Persona& persona();
// Of any chip; of the most common one where there is none of that name.
__attribute__((visibility("default"))) const Persona& persona_of(const std::string& name);
// Null where there is none of that name.
__attribute__((visibility("default"))) const Persona* find_persona(const char* name);
// Whether there is a chip of that name.
bool known_soc(const std::string& name);

}  // namespace softcann
