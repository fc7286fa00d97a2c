// Work on pictures as a task of a stream.
#pragma once

#include <functional>

#include "media/descriptors.h"

namespace softcann::media {

// The channel must be open and for this mode; ACL_SUCCESS, or a code.
aclError check_channel(const char* entry, const acldvppChannelDesc* channel, acldvppChannelMode mode);

// Runs `work` on the stream. What it throws becomes the stream's error, told once, and is the `result` of what it was to make.
aclError submit_work(const char* entry, aclrtStream stream, std::function<void()> work, std::function<void(uint32_t)> set_result);

}  // namespace softcann::media
