#include "distributed/status_file.h"

#include "distributed/flight_recorder.h"
#include "distributed/private_file.h"

namespace torch_npu::distributed {
namespace {

using Dict = c10::Dict<c10::IValue, c10::IValue>;
Dict new_dict() { return Dict(c10::AnyType::get(), c10::AnyType::get()); }

c10::IValue state_of(GroupState& group, Ticket& last) {
  const auto& recorded = *group.recorded;
  std::string members;
  for (const auto rank : recorded.ranks) members += std::to_string(rank) + " ";
  auto state = new_dict();
  state.insert("comm_ids", recorded.is_default ? "all" : members);
  state.insert("op_type", c10d::opTypeToString(last.operation.type));
  state.insert("pg_id", recorded.name);
  state.insert("seq", static_cast<int64_t>(last.sequence));
  state.insert("status", last.query_quietly() ? "end" : "start");
  return state;
}

}  // namespace

void write_status(const StatusFile& file, const std::vector<std::shared_ptr<GroupState>>& groups, const std::string& error) {
  c10::List<c10::IValue> states(c10::AnyType::get());
  for (const auto& group : groups) {
    if (const auto last = group->last_collective()) states.push_back(state_of(*group, *last));
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  auto status = new_dict();
  status.insert("exception_message", error);
  status.insert("global_pg_end_time", std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  status.insert("is_master", file.master);
  status.insert("last_comm_op", states);
  write_private_file(file.folder.empty() ? "" : file.folder + "/", file.name, as_json(status) + "\n", "");
}

}  // namespace torch_npu::distributed
