// Calls that belong together: HcclGroupStart, HcclGroupEnd.
#pragma once

#include <functional>
#include <memory>

#include "comm/comm_task.h"

namespace softcann::group {

// Note [Groups]
// Between the two a thread's calls are collected; the end of the outermost group makes them. Sends and receives of one
// communicator on one stream become a single exchange, so that none waits for another; collectives go to their streams in the
// order of the calls; communicators of several devices, for one of which alone the thread would wait, are made at the same time.
// As in CANN one group has calls of one of these kinds. A call that is refused is refused at once, and then the end makes none.
bool open();
HcclResult add(std::unique_ptr<CommTask> task, aclrtStream stream);
// `make` runs at the end, on a thread that has the current device.
HcclResult add(std::function<HcclResult()> make);
// A call named `entry` was refused.
void refuse(const char* entry);

}  // namespace softcann::group
