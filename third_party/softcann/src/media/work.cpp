#include "media/work.h"

#include <exception>

#include "rt/base/error.h"

namespace softcann::media {
namespace {

struct WorkTask : Task {
  std::function<void()> work;
  std::function<void(uint32_t)> set_result;
};

aclError run_work(Task* self, bool skip) {
  const auto* task = static_cast<WorkTask*>(self);
  if (skip) return ACL_SUCCESS;
  aclError code = ACL_SUCCESS;
  try {
    task->work();
  } catch (const Error& error) {
    code = task_code(error.kind());
    task_error("%s: %s", task->name, error.what());
  } catch (const std::exception& error) {
    code = task_code(ErrorKind::out_of_memory);
    task_error("%s: %s", task->name, error.what());
  }
  task->set_result(static_cast<uint32_t>(code));
  return code;
}

}  // namespace

aclError check_channel(const char* entry, const acldvppChannelDesc* channel, acldvppChannelMode mode) {
  SOFTCANN_REQUIRE(channel, "channelDesc");
  if (!channel->channel.open)
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the channel is not open: call acldvppCreateChannel", entry);
  if ((channel->channel.mode & mode) == 0) {
    return fail(ACL_ERROR_INVALID_PARAM, "%s: the channel's mode is %u, without %u, which this needs (acldvppSetChannelDescMode)",
                entry, channel->channel.mode, static_cast<unsigned>(mode));
  }
  return ACL_SUCCESS;
}

aclError submit_work(const char* entry, aclrtStream stream, std::function<void()> work,
                     std::function<void(uint32_t)> set_result) {
  auto task = std::make_unique<WorkTask>();
  task->work = std::move(work);
  task->set_result = std::move(set_result);
  task->run = &run_once;
  task->repeat = &run_work;
  task->discard = [](Task* self) { delete static_cast<WorkTask*>(self); };
  task->name = entry;
  if (const aclError code = submit(stream, task.get(), kNeverInline)) return code;
  task.release();
  return ACL_SUCCESS;
}

}  // namespace softcann::media
