#include "comm/group.h"

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "comm/communicator.h"
#include "rt/base/error.h"

namespace softcann::group {
namespace {

enum class Kind { none, messages, collectives, communicators };

struct Pending {
  std::unique_ptr<CommTask> task;
  aclrtStream stream;
  aclrtContext context;  // of the thread when it called
};

struct Making {
  std::function<HcclResult()> make;
  int device;
  HcclResult code = HCCL_SUCCESS;
  std::string text;
};

struct Group {
  int depth = 0;
  Kind kind = Kind::none;
  const char* refused = nullptr;
  std::vector<Pending> calls;
  std::vector<Making> makings;
};

thread_local Group current;

HcclResult take(Kind kind, const char* entry) {
  if (current.kind != Kind::none && current.kind != kind) {
    current.refused = entry;
    return hccl_fail(HCCL_E_NOT_SUPPORT,
                     "%s: one group has either messages, or collectives, or communicators to be made, not several of these",
                     entry);
  }
  current.kind = kind;
  return HCCL_SUCCESS;
}

// Messages that go the same way become one exchange.
std::vector<Pending> merged(std::vector<Pending> calls) {
  std::vector<Pending> kept;
  for (Pending& call : calls) {
    const auto same = [&](const Pending& other) {
      return other.stream == call.stream && other.context == call.context && other.task->transport == call.task->transport;
    };
    const auto first = std::find_if(kept.begin(), kept.end(), same);
    if (first == kept.end()) {
      kept.push_back(std::move(call));
      continue;
    }
    CommTask &all = *first->task, &more = *call.task;
    all.name = "HcclBatchSendRecv";
    all.operation.call = {HCCL_CMD_BATCH_SEND_RECV, HCCL_DATA_TYPE_UINT8, HCCL_REDUCE_SUM, 0, 0, 0};
    auto& messages = all.operation.messages;
    messages.insert(messages.end(), more.operation.messages.begin(), more.operation.messages.end());
    all.staged.insert(all.staged.end(), more.staged.begin(), more.staged.end());
  }
  return kept;
}

HcclResult launch(std::vector<Pending> calls) {
  aclrtContext before = nullptr;
  aclrtGetCurrentContext(&before);
  HcclResult first = HCCL_SUCCESS;
  std::string text;
  for (Pending& call : calls) {
    if (call.context != before) aclrtSetCurrentContext(call.context);
    const HcclResult code = submit(std::move(call.task), call.stream);
    if (call.context != before) aclrtSetCurrentContext(before);
    if (code == HCCL_SUCCESS || first != HCCL_SUCCESS) continue;
    first = code;
    text = take_recent_error();
  }
  return first == HCCL_SUCCESS ? first : hccl_fail(first, "HcclGroupEnd: %s", text.c_str());
}

HcclResult make_all(std::vector<Making> makings) {
  std::vector<std::thread> threads;
  for (Making& making : makings) {
    threads.emplace_back([&making] {
      making.code = aclrtSetDevice(making.device) == ACL_SUCCESS ? making.make() : HCCL_E_RUNTIME;
      if (making.code != HCCL_SUCCESS) making.text = take_recent_error();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Making& making : makings) {
    if (making.code != HCCL_SUCCESS) return hccl_fail(making.code, "HcclGroupEnd: %s", making.text.c_str());
  }
  return HCCL_SUCCESS;
}

}  // namespace

bool open() { return current.depth != 0; }

HcclResult add(std::unique_ptr<CommTask> task, aclrtStream stream) {
  const bool messages = !task->operation.messages.empty();
  if (const HcclResult wrong = take(messages ? Kind::messages : Kind::collectives, task->name)) return wrong;
  aclrtContext context = nullptr;
  if (const aclError code = aclrtGetCurrentContext(&context)) {
    refuse(task->name);
    return hccl_fail_last(code);
  }
  current.calls.push_back({std::move(task), stream, context});
  return HCCL_SUCCESS;
}

HcclResult add(std::function<HcclResult()> make) {
  if (const HcclResult wrong = take(Kind::communicators, "a communicator")) return wrong;
  current.makings.push_back({std::move(make), current_device(), HCCL_SUCCESS, {}});
  return HCCL_SUCCESS;
}

void refuse(const char* entry) { current.refused = entry; }

}  // namespace softcann::group

using namespace softcann;

extern "C" {

HcclResult HcclGroupStart() {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGroupStart);
  ++group::current.depth;
  return HCCL_SUCCESS;
}

HcclResult HcclGroupEnd() {
  SOFTCANN_ENTRY_AS(HcclResult, HcclGroupEnd);
  if (!group::open()) return hccl_fail(HCCL_E_NOT_SUPPORT, "HcclGroupEnd: no group has begun on this thread (HcclGroupStart)");
  if (--group::current.depth > 0) return HCCL_SUCCESS;
  group::Group ended = std::exchange(group::current, {});
  if (ended.refused != nullptr) {
    return hccl_fail(HCCL_E_PARA, "HcclGroupEnd: %s was refused, so no call of the group is made", ended.refused);
  }
  if (ended.kind == group::Kind::communicators) return group::make_all(std::move(ended.makings));
  return group::launch(ended.kind == group::Kind::messages ? group::merged(std::move(ended.calls)) : std::move(ended.calls));
}
}
