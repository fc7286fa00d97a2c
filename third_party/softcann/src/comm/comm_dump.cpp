#include "comm/comm_dump.h"

#include <cstring>
#include <exception>
#include <utility>

#include "rt/profile/call_record.h"
#include "rt/base/half.h"

namespace softcann {
namespace {

struct Type {
  HcclDataType type;
  aclDataType acl;
};
constexpr Type kTypes[] = {
    {HCCL_DATA_TYPE_INT8, ACL_INT8},
    {HCCL_DATA_TYPE_INT16, ACL_INT16},
    {HCCL_DATA_TYPE_INT32, ACL_INT32},
    {HCCL_DATA_TYPE_FP16, ACL_FLOAT16},
    {HCCL_DATA_TYPE_FP32, ACL_FLOAT},
    {HCCL_DATA_TYPE_INT64, ACL_INT64},
    {HCCL_DATA_TYPE_UINT64, ACL_UINT64},
    {HCCL_DATA_TYPE_UINT8, ACL_UINT8},
    {HCCL_DATA_TYPE_UINT16, ACL_UINT16},
    {HCCL_DATA_TYPE_UINT32, ACL_UINT32},
    {HCCL_DATA_TYPE_FP64, ACL_DOUBLE},
    {HCCL_DATA_TYPE_BFP16, ACL_BF16},
    {HCCL_DATA_TYPE_FP8E4M3, ACL_FLOAT8_E4M3FN},
    {HCCL_DATA_TYPE_FP8E5M2, ACL_FLOAT8_E5M2},
};

aclDataType acl_type_of(uint8_t type) {
  for (const Type& known : kTypes) {
    if (known.type == type) return known.acl;
  }
  return ACL_DT_UNDEFINED;
}

template <class E>
std::shared_ptr<E[]> room_for(uint64_t elements) {
  return std::shared_ptr<E[]>(new E[elements]);
}

dump::Tensor tensor_of(const char* name, bool written, const Buffer& buffer, uint8_t type) {
  dump::Tensor made;
  made.written = written;
  made.name = name;
  made.type = made.stored = acl_type_of(type);
  const size_t item = bytes_of(static_cast<HcclDataType>(type));
  const uint64_t elements = item != 0 ? buffer.bytes / item : 0;
  made.dims = {static_cast<int64_t>(elements)};
  made.strides = {1};
  if (made.type == ACL_BF16) {
    const auto wide = room_for<float>(elements);
    for (uint64_t i = 0; i < elements; ++i) {
      uint16_t one = 0;
      std::memcpy(&one, buffer.data + 2 * i, sizeof one);
      wide[i] = bfloat_to_float(one);
    }
    made.stored = ACL_FLOAT;
    made.bytes = elements * sizeof(float);
    made.data = std::shared_ptr<const void>(wide, wide.get());
    return made;
  }
  const auto copy = room_for<char>(buffer.bytes);
  std::memcpy(copy.get(), buffer.data, buffer.bytes);
  made.bytes = buffer.bytes;
  made.data = std::shared_ptr<const void>(copy, copy.get());
  return made;
}

}  // namespace

void CommDump::take(const Operation& operation, bool written) {
  const Buffer& whole = written ? operation.receive : operation.send;
  if (whole.bytes != 0) tensors_.push_back(tensor_of(written ? "recvBuf" : "sendBuf", written, whole, operation.call.type));
  for (const Message& message : operation.messages) {
    if (message.send == written || message.buffer.bytes == 0) continue;
    const std::string name = (written ? "from" : "to") + std::to_string(message.peer);
    tensors_.push_back(tensor_of(name.c_str(), written, message.buffer, message.call.type));
  }
}

std::shared_ptr<CommDump> CommDump::begin(const char* name, const Operation& operation) {
  auto made = std::make_shared<CommDump>();
  made->call_.name = name;
  made->call_.device = call_record::device();
  made->call_.stream = call_record::stream();
  if (!dump::begin(&made->call_)) return nullptr;
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
