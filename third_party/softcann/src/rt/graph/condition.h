// Conditional tasks of graphs.
#pragma once

#include <memory>

#include "rt/graph/capture.h"

namespace softcann {

// Note [Conditional tasks]
// A graph can have numbers of its own in device memory, which its tasks write. A conditional task reads one when it is its turn,
// and runs one of its branches, graphs that are captured into it one by one: if, the first where the number is not 0, else the
// second where there is one; while, the only one as long as the number is not 0; switch, the one of that number.
struct Condition {
  uint64_t* memory = nullptr;  // of aclrtMalloc
  uint64_t initial = 0;
  bool assigns = false;  // `initial`, whenever its graph begins to run

  ~Condition();
  uint64_t value() const;
  void assign_default() const;
};

uint32_t next_graph_id();

}  // namespace softcann
