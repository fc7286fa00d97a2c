// One thread per process that looks after the operations in flight of every group.
//
// Ten times a second it asks the communicators for errors that came later, lets go of what has run, and fails a group of
// which an operation has taken longer than its timeout: see TORCH_HCCL_ASYNC_ERROR_HANDLING for what that means. An error of
// the device that a thread meets is told with what the groups know of it. It never waits for the store (desync.h does), never
// holds a tensor and never needs the GIL, except for the stack traces of a dump, which are given up when it cannot be had.
#pragma once

#include <memory>

#include "distributed/group_state.h"
#include "distributed/status_file.h"

namespace torch_npu::distributed {

void watch(std::shared_ptr<GroupState> group);
// When this returns the watchdog does not know the group any more.
void unwatch(const std::shared_ptr<GroupState>& group);
// From now on the watchdog keeps this file.
C10_EXPORT void keep_status(StatusFile file);
// Ends the thread; to be called before the process ends.
C10_EXPORT void stop_watchdog();

// Tells the flight recorder what has run by now, instead of at the watchdog's next look.
C10_EXPORT void sweep_groups();

// Writes the flight recorder to <TORCH_HCCL_DEBUG_INFO_TEMP_FILE><global rank>.json; returns the path, empty if it could not.
C10_EXPORT std::string dump_flight_recorder(int global_rank, bool stacks);

}  // namespace torch_npu::distributed
