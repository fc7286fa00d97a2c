// libllm_datadist: the engines of test_transfer.cpp by their older name.
#include <vector>

#include "acl_checks.h"
#include "adxl/adxl_engine.h"
#include "transfer_memory.h"

TEST(by_the_older_name) {
  OK(aclrtSetDevice(0));
  adxl::AdxlEngine here, there;
  adxl::MemHandle handles[2];
  FAILS(here.Connect(name_of(1).c_str()), adxl::FAILED, "not initialized");
  OK(here.Initialize(name_of(0).c_str(), {{adxl::OPTION_BUFFER_POOL, "0:0"}}));
  OK(here.Initialize(name_of(0).c_str(), {{adxl::OPTION_BUFFER_POOL, "0:0"}}));
  OK(there.Initialize(name_of(1).c_str(), {{adxl::OPTION_LOCAL_COMM_RES, R"({"version": "1.3"})"}}));
  Memory local(4096), remote(4096, false);
  remote.fill(8);
  OK(here.RegisterMem({local.address(), local.bytes, {}}, adxl::MEM_DEVICE, handles[0]));
  OK(there.RegisterMem({remote.address(), remote.bytes, {}}, adxl::MEM_HOST, handles[1]));
  OK(here.Connect(name_of(1).c_str()));
  OK(here.TransferSync(name_of(1).c_str(), adxl::READ, {{local.address(), remote.address(), 4096}}));
  EXPECT(local.holds(8));
  local.fill(11);
  adxl::TransferReq request = nullptr;
  OK(here.TransferAsync(name_of(1).c_str(), adxl::WRITE, {{local.address(), remote.address(), 4096}}, {}, request));
  adxl::TransferStatus status = adxl::TransferStatus::WAITING;
  while (status == adxl::TransferStatus::WAITING) OK(here.GetTransferStatus(request, status));
  EXPECT(status == adxl::TransferStatus::COMPLETED && remote.holds(11));
  OK(here.SendNotify(name_of(1).c_str(), {"n", "t"}));
  std::vector<adxl::NotifyDesc> notifies;
  OK(there.GetNotifies(notifies));
  EXPECT(notifies.size() == 1 && notifies[0].notify_msg == "t");
  OK(here.Disconnect(name_of(1).c_str()));
  OK(here.DeregisterMem(handles[0]));
}
