// A call of a client as a task of its stream.
#pragma once

#include <memory>
#include <vector>

#include "comm/comm_dump.h"
#include "comm/transport.h"

namespace softcann {

// Memory that the other ranks cannot reach (mapped piece by piece, or imported) is copied to some that they can.
struct Staged {
  std::shared_ptr<void> memory;  // of aclrtMalloc; executions of a graph share it, in the order of its streams
  char* original = nullptr;
  uint64_t bytes = 0;
  bool in = false, out = false;
};

struct CommTask : Task {
  std::shared_ptr<Transport> transport;
  uint32_t rank = 0;
  Operation operation;
  std::vector<Staged> staged;
  bool tried = false;
  std::shared_ptr<CommDump> dumped;

  CommTask();

 private:
  static aclError execute(Task* self, bool skip);
  aclError advance();
  void copy_staged(bool in);
  void record_received() const;
};

// Numbers it and puts it on the stream; or into the graph that the stream is captured into, whose executions number it.
HcclResult submit(std::unique_ptr<CommTask> task, aclrtStream stream);

}  // namespace softcann
