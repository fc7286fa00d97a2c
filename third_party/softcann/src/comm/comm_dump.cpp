#include "comm/comm_dump.h"

#include <exception>
#include <utility>

#include "rt/dump/dump_values.h"
#include "rt/recording/call_record.h"

namespace softcann {
namespace {

// After a failure, as of a rank that waited for another until it gave up, the client may have freed its buffers.
bool is_gone(const Buffer& buffer) {
  if (!dump::watches_failures.load()) return false;
  uintptr_t begin = 0;
  size_t size = 0;
  const void* address = client_address(buffer.data);
  return is_device_pointer(address) && !live_memory(address, buffer.bytes, &begin, &size);
}

}  // namespace

void CommDump::take(const Operation& operation, bool written) {
  const auto add = [&](std::string name, const Buffer& buffer, uint8_t number) {
    const auto type = static_cast<HcclDataType>(number);
    const size_t item = bytes_of(type);
    if (buffer.bytes == 0 || item == 0 || is_gone(buffer)) return;
    tensors_.push_back(dump::copy_of(std::move(name), written, acl_type_of(type), {static_cast<int64_t>(buffer.bytes / item)},
                                     buffer.data, buffer.bytes));
  };
  add(written ? "recvBuf" : "sendBuf", written ? operation.receive : operation.send, operation.call.type);
  for (const Message& message : operation.messages) {
    if (message.send != written) add((written ? "from" : "to") + std::to_string(message.peer), message.buffer, message.call.type);
  }
}

std::shared_ptr<CommDump> CommDump::begin(const char* name, const Operation& operation, const Task* task) {
  auto made = std::make_shared<CommDump>();
  made->call_.name = name;
  made->call_.device = call_record::device();
  made->call_.stream = call_record::stream();
  if (!dump::begin(&made->call_, task)) return nullptr;
  try {
    if (made->call_.wants_read) made->take(operation, false);
  } catch (const std::exception& error) {
    dump::give_up(made->call_, error.what());
    return nullptr;
  }
  return made;
}

void CommDump::end(const Operation& operation, bool failed) {
  try {
    if (call_.wants_written && !failed) take(operation, true);
    dump::end(call_, tensors_, failed);
  } catch (const std::exception& error) {
    dump::give_up(call_, error.what());
  }
}

}  // namespace softcann
