// One call of a client, in the form transports work on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/control.h"
#include "rt/exchange.h"

#pragma GCC visibility push(default)
#include "hccl/hccl.h"
#pragma GCC visibility pop

namespace softcann {

// Bytes of one element; 0 for an unknown type.
size_t bytes_of(HcclDataType type);
inline uint64_t block_bytes(const Call& call) { return call.count * bytes_of(static_cast<HcclDataType>(call.type)); }
const char* name_of(HcclDataType type);
aclDataType acl_type_of(HcclDataType type);  // ACL_DT_UNDEFINED where there is none
const char* name_of(HcclReduceOp op);
// "1, 3" of a set of ranks.
std::string list_of(uint64_t ranks);
// "HcclAllReduce of 5 float32, sum", for error messages.
std::string describe(const Call& call);
// What the stream's error is called for a failure of the communicator.
aclError stream_error_of(HcclResult code);

// A client's buffer: where kernels reach it, and where it lies in its device's memory file.
struct Buffer {
  char* data = nullptr;
  uint64_t bytes = 0;
  uint64_t place = 0;
};

// A part of a buffer, in bytes.
struct Part {
  uint64_t offset;
  uint64_t bytes;
};

// A message to or from one rank.
struct Message {
  bool send;
  uint32_t peer;
  Call call;
  Buffer buffer;
  uint64_t number = 0;
  int stage = 0;
};

struct Operation {
  Call call{};  // kind: HcclCMDType
  uint64_t number = 0;
  Buffer send, receive;
  // What goes to and comes from each rank, where the call tells them apart (the V variants); else empty.
  std::vector<Part> send_parts, receive_parts;
  // HcclSend, HcclRecv and HcclBatchSendRecv have these alone.
  std::vector<Message> messages;

  // For the transport.
  int stage = 0;
  int64_t started_ns = 0;
};

}  // namespace softcann
