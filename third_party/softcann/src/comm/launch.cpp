#include "comm/launch.h"

#include "comm/group.h"
#include "comm/reduce.h"
#include "rt/memory/check.h"
#include "rt/profile/collector.h"

namespace softcann {

Launch::Launch(const char* entry, HcclComm comm, aclrtStream stream, HcclCMDType kind, HcclDataType type, uint64_t count,
               HcclReduceOp op, uint32_t root)
    : entry_(entry),
      handle_(comm),
      stream_(stream),
      item_(bytes_of(type)),
      task_(std::make_unique<CommTask>()),
      operation_(&task_->operation) {
  operation_->call = Call{static_cast<uint8_t>(kind), static_cast<uint8_t>(type), static_cast<uint8_t>(op), 0, root, count};
  task_->name = entry;
}

Launch::~Launch() {
  if (task_ != nullptr && group::open()) group::refuse(entry_);
}

HcclResult Launch::check() {
  communicator_ = find_communicator(handle_, entry_);
  if (communicator_ == nullptr) return HCCL_E_PARA;
  const Call& call = operation_->call;
  const auto type = static_cast<HcclDataType>(call.type);
  if (item_ == 0) return hccl_fail(HCCL_E_NOT_SUPPORT, "%s: unknown data type %d", entry_, static_cast<int>(call.type));
  const bool reduces = call.kind == HCCL_CMD_ALLREDUCE || call.kind == HCCL_CMD_REDUCE || call.kind == HCCL_CMD_REDUCE_SCATTER ||
                       call.kind == HCCL_CMD_REDUCE_SCATTER_V;
  if (reduces && call.op > HCCL_REDUCE_MIN) {
    return hccl_fail(HCCL_E_PARA, "%s: unknown reduction %d", entry_, static_cast<int>(call.op));
  }
  if (reduces && !can_reduce(type)) {
    return hccl_fail(HCCL_E_NOT_SUPPORT, "%s: reductions of %s are not supported", entry_, name_of(type));
  }
  if (call.root >= communicator_->ranks) {
    return hccl_fail(HCCL_E_PARA, "%s: root %u of %u ranks", entry_, call.root, communicator_->ranks);
  }
  const int device = stream_device(stream_);
  if (device >= 0 && device != communicator_->device) {
    return hccl_fail(HCCL_E_PARA, "%s: the stream is of device %d, the communicator of device %d", entry_, device,
                     communicator_->device);
  }
  if (communicator_->suspended.load(std::memory_order_acquire)) {
    return hccl_fail(HCCL_E_SUSPENDING, "%s: communicator %s is suspended; HcclCommResume lets it go on", entry_,
                     communicator_->name.c_str());
  }
  std::string text;
  const HcclResult broken = communicator_->transport->failure(&text);
  if (broken == HCCL_SUCCESS) return HCCL_SUCCESS;
  return hccl_fail(broken, "%s: communicator %s is broken: %s", entry_, communicator_->name.c_str(), text.c_str());
}

HcclResult Launch::use(const void* p, uint64_t count, uint64_t item, bool in, bool out, Buffer* buffer) {
  if (count == 0) return HCCL_SUCCESS;
  if (p == nullptr) return hccl_fail(HCCL_E_PTR, "%s: a buffer is a null pointer", entry_);
  if (count > (uint64_t{1} << 56) / item) return hccl_fail(HCCL_E_PARA, "%s: too many elements", entry_);
  buffer->bytes = count * item;
  if (const aclError code = check_device_range(p, buffer->bytes)) return hccl_fail_last(code);
  if (out) check::mark_written_elsewhere(p, buffer->bytes);
  buffer->data = static_cast<char*>(device_view(p));
  int device = -1;
  if (locate(p, buffer->bytes, &device, &buffer->place) && device == communicator_->device) return HCCL_SUCCESS;
  void* memory = nullptr;
  if (const aclError code = aclrtMalloc(&memory, buffer->bytes, ACL_MEM_MALLOC_NORMAL_ONLY)) return hccl_fail_last(code);
  task_->staged.push_back({{memory, aclrtFree}, buffer->data, buffer->bytes, in, out});
  buffer->data = static_cast<char*>(device_view(memory));
  if (!locate(memory, buffer->bytes, &device, &buffer->place) || device != communicator_->device) {
    return hccl_fail(HCCL_E_PARA, "%s: the current device is not the communicator's, %d", entry_, communicator_->device);
  }
  return HCCL_SUCCESS;
}

HcclResult Launch::send(const void* p, uint64_t count) { return use(p, count, item_, true, false, &operation_->send); }

HcclResult Launch::receive(void* p, uint64_t count) { return use(p, count, item_, false, true, &operation_->receive); }

HcclResult Launch::in_place(void* p, uint64_t count, bool sends) {
  if (const HcclResult wrong = use(p, count, item_, sends, !sends, &operation_->send)) return wrong;
  operation_->receive = operation_->send;
  return HCCL_SUCCESS;
}

HcclResult Launch::message(bool send, void* p, uint64_t count, HcclDataType type, uint32_t peer) {
  const uint64_t item = bytes_of(type);
  if (item == 0) return hccl_fail(HCCL_E_NOT_SUPPORT, "%s: unknown data type %d", entry_, static_cast<int>(type));
  if (peer >= communicator_->ranks) {
    return hccl_fail(HCCL_E_PARA, "%s: rank %u of %u ranks", entry_, peer, communicator_->ranks);
  }
  Message message{send, peer, operation_->call, {}, 0, 0};
  message.call.type = static_cast<uint8_t>(type);
  message.call.count = count;
  if (const HcclResult wrong = use(p, count, item, send, !send, &message.buffer)) return wrong;
  operation_->messages.push_back(message);
  return HCCL_SUCCESS;
}

// For the profiler, while somebody records.
void Launch::note_message() const {
  uint64_t sent = operation_->send.bytes, received = operation_->receive.bytes;
  for (const Message& message : operation_->messages) (message.send ? sent : received) += message.buffer.bytes;
  const std::string type = name_of(static_cast<HcclDataType>(operation_->call.type));
  const auto described = [&](uint64_t bytes) { return std::to_string(bytes / item_) + '\t' + type + "\tND\t"; };
  recorder::note_operands(task_.get(), described(sent) + described(received) + communicator_->name + '\t' +
                                           std::to_string(communicator_->rank) + '\t' + std::to_string(communicator_->ranks));
}

HcclResult Launch::submit() {
  task_->transport = communicator_->transport;
  task_->rank = communicator_->rank;
  if (recorder::is_active() && !is_captured(stream_)) note_message();
  if (group::open()) return group::add(std::move(task_), stream_);
  return softcann::submit(std::move(task_), stream_);
}

}  // namespace softcann
