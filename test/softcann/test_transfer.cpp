// Engines that read and write each other's memory (libcann_hixl, libllm_datadist): in one process, and in two.
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <thread>

#include "acl_checks.h"
#include "hixl/hixl.h"
#include "transfer_memory.h"

using hixl::AscendString;
using Options = std::map<AscendString, AscendString>;

namespace {

const Options kClientServer = {{hixl::OPTION_LOCAL_COMM_RES, R"({"version": "1.3"})"}};

struct Engine : hixl::Hixl {
  explicit Engine(int which, const Options& options = kClientServer) {
    OK(aclrtSetDevice(0));
    OK(Initialize(name_of(which).c_str(), options));
  }
};

std::vector<hixl::TransferOpDesc> whole(const Memory& local, uintptr_t remote) {
  return {{local.address(), remote, local.bytes}};
}

int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Where a user's engine of that name is met.
struct Meeting {
  Meeting(uid_t user, const std::string& name) {
    address.sun_family = AF_UNIX;
    const int size = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "softcann-hixl-%u-%s", user, name.c_str());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(size));
  }
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{};
  socklen_t length;
};

// A raw connection to an engine, as a stranger would make it.
int raw_connection(const std::string& name) {
  const Meeting meeting(geteuid(), name);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT(connect(fd, meeting.generic(), meeting.length) == 0);
  return fd;
}

void stop(int pid) {
  kill(pid, SIGSTOP);
  int status = 0;
  EXPECT(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

// The other process of a test: an engine that offers 1 MiB of the device and of the host, tells the parent's engine where they
// are, and ends when the parent's says so, with 0 when then the device's holds what the parent writes there.
int offer(const std::vector<std::string>& arguments) {
  const int parent = std::stoi(arguments[0]);
  Engine engine(1);
  Memory device(1 << 20), host(1 << 20, false);
  device.fill(1);
  host.fill(2);
  device.add_to(engine);
  host.add_to(engine);
  const std::string told = std::to_string(device.address()) + " " + std::to_string(host.address());
  OK(engine.Connect(name_of(0, parent).c_str(), 5000));
  OK(engine.SendNotify(name_of(0, parent).c_str(), {"memory", told.c_str()}));
  std::vector<hixl::NotifyDesc> notifies;
  while (notifies.empty()) {
    test::sleep_ms(1);
    OK(engine.GetNotifies(notifies));
  }
  OK(engine.Disconnect(name_of(0, parent).c_str()));
  const bool written = device.holds(3) && host.holds(4);
  return test::failed() || !written ? 1 : 0;
}

struct Other {
  explicit Other(hixl::Hixl& engine) : pid(test::start_child("offer", {std::to_string(getpid())})), name(name_of(1, pid)) {
    std::vector<hixl::NotifyDesc> notifies;
    for (int64_t until = now_ms() + 30000; notifies.empty() && now_ms() < until; test::sleep_ms(1))
      OK(engine.GetNotifies(notifies));
    if (notifies.empty()) {
      test::report_failure(__FILE__, __LINE__, "the other process does not come");
      return;
    }
    EXPECT_EQ(std::string(notifies[0].name.GetString()), std::string("memory"));
    char* end = nullptr;
    device = std::strtoull(notifies[0].notify_msg.GetString(), &end, 10);
    host = std::strtoull(end, nullptr, 10);
  }
  const int pid;
  const std::string name;
  uintptr_t device = 0, host = 0;
};

}  // namespace

CHILD(offer) { return offer(arguments); }

TEST(two_processes) {
  Engine engine(0);
  Memory device(1 << 20), host(1 << 20, false);
  device.add_to(engine);
  host.add_to(engine);
  Other other(engine);
  const char* remote = other.name.c_str();
  OK(engine.Connect(remote));
  EXPECT_EQ(engine.Connect(remote), hixl::ALREADY_CONNECTED);
  OK(engine.TransferSync(remote, hixl::READ, whole(device, other.device)));
  EXPECT(device.holds(1));
  OK(engine.TransferSync(remote, hixl::READ, whole(device, other.host)));
  EXPECT(device.holds(2));
  OK(engine.TransferSync(remote, hixl::READ, whole(host, other.device)));
  EXPECT(host.holds(1));
  device.fill(4);
  host.fill(3);
  hixl::TransferReq requests[2];
  OK(engine.TransferAsync(remote, hixl::WRITE, whole(host, other.device), {}, requests[0]));
  OK(engine.TransferAsync(remote, hixl::WRITE, whole(device, other.host), {}, requests[1]));
  for (const hixl::TransferReq request : requests) {
    hixl::TransferStatus status = hixl::TransferStatus::WAITING;
    while (status == hixl::TransferStatus::WAITING) OK(engine.GetTransferStatus(request, status));
    EXPECT(status == hixl::TransferStatus::COMPLETED);
    FAILS(engine.GetTransferStatus(request, status), hixl::PARAM_INVALID, "was told to have ended");
    EXPECT(status == hixl::TransferStatus::FAILED);
  }
  OK(engine.SendNotify(remote, {"end", ""}));
  EXPECT_EQ(test::wait_child(other.pid), 0);
  // Its end is an error of the next transfer; what is left of the connection can be taken down, once.
  FAILS(engine.TransferSync(remote, hixl::READ, whole(device, other.device)), hixl::FAILED, "the connection ended");
  OK(engine.Disconnect(remote));
  FAILS(engine.Disconnect(remote), hixl::NOT_CONNECTED, "is not connected");
  FAILS(engine.TransferSync(remote, hixl::READ, whole(device, other.device)), hixl::NOT_CONNECTED, "is not connected");
  FAILS(engine.Connect(remote), hixl::FAILED, "no engine of this user and this machine");
}

TEST(a_process_that_stops_or_dies) {
  Engine engine(0);
  Memory device(1 << 20);
  device.add_to(engine);
  Other other(engine);
  const char* remote = other.name.c_str();
  OK(engine.Connect(remote));
  stop(other.pid);
  int64_t began = now_ms();
  FAILS(engine.TransferSync(remote, hixl::READ, whole(device, other.device), 200), hixl::TIMEOUT, "longer than the given time");
  EXPECT(now_ms() - began >= 200 && now_ms() - began < 5000);
  FAILS(engine.TransferSync(remote, hixl::READ, whole(device, other.device)), hixl::FAILED, "disconnect, and connect again");
  OK(engine.Disconnect(remote));
  FAILS(engine.Connect(remote, 200), hixl::TIMEOUT, "is silent");
  kill(other.pid, SIGCONT);
  OK(engine.Connect(remote, 5000));
  OK(engine.TransferSync(remote, hixl::READ, whole(device, other.device)));
  EXPECT(device.holds(1));

  // What nobody waits for does not keep others from going on, however long it takes.
  stop(other.pid);
  hixl::TransferReq request = nullptr;
  OK(engine.TransferAsync(remote, hixl::WRITE, whole(device, other.device), {}, request));
  hixl::TransferStatus status = hixl::TransferStatus::FAILED;
  OK(engine.GetTransferStatus(request, status));
  EXPECT(status == hixl::TransferStatus::WAITING);
  FAILS(engine.TransferSync(remote, hixl::READ, whole(device, other.device), 100), hixl::TIMEOUT, "time");
  began = now_ms();
  OK(engine.Disconnect(remote));
  EXPECT(now_ms() - began < 5000);
  EXPECT_EQ(engine.GetTransferStatus(request, status), hixl::PARAM_INVALID);
  kill(other.pid, SIGKILL);
  test::wait_child(other.pid);
}

TEST(pieces) {
  Engine here(0), there(1);
  constexpr size_t kCount = 70000, kBytes = 24;  // more than one request takes
  Memory local(kCount * kBytes), remote(kCount * kBytes);
  local.fill(7);
  local.add_to(here);
  remote.add_to(there);
  OK(here.Connect(name_of(1).c_str()));
  std::vector<hixl::TransferOpDesc> pieces;
  for (size_t i = 0; i < kCount; ++i) {
    const size_t at = i * 7919 % kCount * kBytes;  // in no order
    pieces.push_back({local.address() + at, remote.address() + at, kBytes});
  }
  OK(here.TransferSync(name_of(1).c_str(), hixl::WRITE, pieces, 60000));
  EXPECT(remote.holds(7));
  local.fill(0);
  OK(here.TransferSync(name_of(1).c_str(), hixl::READ, pieces, 60000));
  EXPECT(local.holds(7));
}

TEST(threads) {
  Engine here(0), there(1);
  constexpr size_t kThreads = 4, kBytes = 1 << 16;
  Memory remote(kThreads * kBytes);
  remote.add_to(there);
  std::vector<std::unique_ptr<Memory>> locals;
  for (size_t i = 0; i < kThreads; ++i) {
    locals.push_back(std::make_unique<Memory>(kBytes, i % 2 == 0));
    locals[i]->add_to(here);
  }
  OK(here.Connect(name_of(1).c_str()));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      OK(aclrtSetDevice(0));
      for (uint32_t round = 0; round < 20; ++round) {
        const uint32_t seed = static_cast<uint32_t>(i) * 100 + round;
        const auto pieces = whole(*locals[i], remote.address() + i * kBytes);
        locals[i]->fill(seed);
        OK(here.TransferSync(name_of(1).c_str(), hixl::WRITE, pieces, 60000));
        locals[i]->fill(0);
        OK(here.TransferSync(name_of(1).c_str(), hixl::READ, pieces, 60000));
        EXPECT(locals[i]->holds(seed));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(registered_memory) {
  Engine here(0), there(1);
  Memory local(4096), remote(4096), late(4096), later(4096), host(4096, false);
  hixl::MemHandle handle = nullptr, same = nullptr;
  OK(here.RegisterMem(local.all(), hixl::MEM_DEVICE, handle));
  OK(here.RegisterMem(local.all(), hixl::MEM_DEVICE, same));
  EXPECT_EQ(handle, same);
  FAILS(here.RegisterMem({local.address() + 8, 64, {}}, hixl::MEM_DEVICE, same), hixl::PARAM_INVALID, "overlap");
  FAILS(here.RegisterMem({0, 64, {}}, hixl::MEM_DEVICE, same), hixl::PARAM_INVALID, "null pointer");
  FAILS(here.RegisterMem({local.address(), 0, {}}, hixl::MEM_DEVICE, same), hixl::PARAM_INVALID, "0 bytes");
  FAILS(here.RegisterMem(local.all(), hixl::MEM_HOST, same), hixl::PARAM_INVALID, "not of the host");
  EXPECT_EQ(here.RegisterMem(host.all(), hixl::MEM_DEVICE, same), hixl::PARAM_INVALID);
  EXPECT_EQ(here.RegisterMem({local.address(), local.bytes + 1024 * 1024 * 1024, {}}, hixl::MEM_DEVICE, same),
            hixl::PARAM_INVALID);
  remote.add_to(there);
  const std::string name = name_of(1);
  OK(here.Connect(name.c_str()));
  const auto transfer = [&](uintptr_t from, uintptr_t to, size_t bytes) {
    return here.TransferSync(name.c_str(), hixl::WRITE, {{from, to, bytes}});
  };
  OK(transfer(local.address() + 96, remote.address() + 4000, 96));
  FAILS(transfer(local.address(), remote.address() + 4000, 97), hixl::PARAM_INVALID, "remote memory");
  FAILS(transfer(local.address() + 4000, remote.address(), 97), hixl::PARAM_INVALID, "local memory");
  hixl::TransferReq request = nullptr;
  FAILS(here.TransferAsync(name.c_str(), hixl::READ, whole(local, remote.address() + 1), {}, request), hixl::PARAM_INVALID,
        "remote memory");
  FAILS(transfer(local.address(), remote.address(), 0), hixl::PARAM_INVALID, "no bytes");
  FAILS(here.TransferSync(name.c_str(), hixl::READ, {}), hixl::PARAM_INVALID, "nothing");
  // What is registered behind a connection is not for it.
  late.add_to(here);
  later.add_to(there);
  FAILS(transfer(late.address(), remote.address(), 64), hixl::PARAM_INVALID, "before the connection");
  FAILS(transfer(local.address(), later.address(), 64), hixl::PARAM_INVALID, "before the connection");
  OK(transfer(local.address(), remote.address(), 64));  // none of that has broken it
  FAILS(here.DeregisterMem(handle), hixl::FAILED, "disconnect first");
  OK(here.Disconnect(name.c_str()));
  OK(here.Connect(name.c_str()));
  OK(transfer(late.address(), later.address(), 64));
  OK(here.Disconnect(name.c_str()));
  OK(here.DeregisterMem(handle));
  OK(here.DeregisterMem(handle));
  FAILS(here.DeregisterMem(nullptr), hixl::PARAM_INVALID, "null pointer");
  OK(here.Connect(name.c_str()));
  EXPECT_EQ(transfer(local.address(), remote.address(), 64), hixl::PARAM_INVALID);
}

TEST(memory_that_is_gone) {
  Engine here(0), there(1);
  Memory local(4096);
  local.add_to(here);
  auto remote = std::make_unique<Memory>(4096);
  remote->add_to(there);
  OK(here.Connect(name_of(1).c_str()));
  const auto pieces = whole(local, remote->address());
  remote.reset();
  FAILS(here.TransferSync(name_of(1).c_str(), hixl::WRITE, pieces), hixl::PARAM_INVALID, "is gone");
  // Of what nobody waits for, the status tells it, and the text why.
  hixl::TransferReq request = nullptr;
  OK(here.TransferAsync(name_of(1).c_str(), hixl::WRITE, pieces, {}, request));
  hixl::TransferStatus status = hixl::TransferStatus::WAITING;
  while (status == hixl::TransferStatus::WAITING) OK(here.GetTransferStatus(request, status));
  const char* text = aclGetRecentErrMsg();
  EXPECT(status == hixl::TransferStatus::FAILED && text != nullptr && std::strstr(text, "is gone") != nullptr);
}

// An engine of clients and servers looks at them all, whatever makes it one.
void expect_all_requests(const Options& client_server) {
  Engine here(0, client_server), there(1, client_server), plain(2, {});
  Memory local(4096), remote(4096);
  local.add_to(here);
  remote.add_to(there);
  OK(here.Connect(name_of(1).c_str()));
  int marks[3];
  hixl::TransferReq requests[3];
  for (int i = 0; i < 3; ++i) {
    hixl::TransferArgs args;
    args.user_data = &marks[i];
    OK(here.TransferAsync(name_of(1).c_str(), hixl::READ, whole(local, remote.address()), args, requests[i]));
  }
  std::vector<hixl::TransferResult> results, all;
  hixl::GetTransferStatusArgs args;
  args.max_query_count = 2;
  args.skip_waiting = true;
  for (int64_t until = now_ms() + 30000; all.size() < 3 && now_ms() < until;) {
    OK(here.GetTransferStatus(args, results));
    EXPECT(results.size() <= 2);
    all.insert(all.end(), results.begin(), results.end());
  }
  EXPECT_EQ(all.size(), size_t{3});
  // One may have ended between the looks at it and at the next, and comes with the next answer then.
  for (const hixl::TransferResult& one : all) {
    const auto i = std::find(requests, requests + 3, one.req) - requests;
    EXPECT(i < 3 && one.user_data == &marks[i] && one.status == hixl::TransferStatus::COMPLETED);
    if (i < 3) requests[i] = nullptr;  // once each
  }
  FAILS(plain.GetTransferStatus(args, results), hixl::UNSUPPORTED, "1.3");
  hixl::TransferStatus status{};
  FAILS(here.GetTransferStatus(nullptr, status), hixl::FAILED, "null pointer");
}

TEST(all_requests) { expect_all_requests(kClientServer); }

TEST(all_requests_of_engines_with_a_protocol) {
  for (const char* one : {"\"hccs:device\"", "[\"roce:device\", \"roce:host\"]"}) {
    const std::string resources = std::string("{\"comm_resource_config.protocol_desc\": ") + one + "}";
    expect_all_requests({{hixl::OPTION_GLOBAL_RESOURCE_CONFIG, resources.c_str()}});
  }
}

TEST(connecting_without_waiting) {
  Engine here(0, {{"GlobalResourceConfig", R"({"connect_pool.thread_num": "1", "connect_pool.task_queue_capacity": 2})"}}),
      there(1);
  const std::string there_name = name_of(1), nobody = name_of(3);
  const auto settled = [&](const std::string& name) {
    hixl::AsyncConnectStatus status{};
    for (int64_t until = now_ms() + 30000; now_ms() < until; test::sleep_ms(1)) {
      OK(here.GetAsyncConnectStatus(name.c_str(), status));
      const bool waits = status == hixl::AsyncConnectStatus::CONNECT_PENDING || status == hixl::AsyncConnectStatus::CONNECTING ||
                         status == hixl::AsyncConnectStatus::DISCONNECT_PENDING ||
                         status == hixl::AsyncConnectStatus::DISCONNECTING;
      if (!waits) break;
    }
    return status;
  };
  EXPECT(settled(there_name) == hixl::AsyncConnectStatus::NOT_CONNECT);
  OK(here.ConnectAsync(there_name.c_str()));
  EXPECT(settled(there_name) == hixl::AsyncConnectStatus::CONNECTED);
  OK(here.ConnectAsync(nobody.c_str()));
  EXPECT(settled(nobody) == hixl::AsyncConnectStatus::CONNECT_FAILED);
  std::map<AscendString, hixl::AsyncConnectStatus> all;
  OK(here.GetAsyncConnectStatus(all));
  EXPECT(all.size() == 2 && all[there_name.c_str()] == hixl::AsyncConnectStatus::CONNECTED);
  OK(here.DisconnectAsync(there_name.c_str()));
  EXPECT(settled(there_name) == hixl::AsyncConnectStatus::NOT_CONNECT);
  EXPECT_EQ(here.Disconnect(there_name.c_str()), hixl::NOT_CONNECTED);
  FAILS(here.ConnectAsync(there_name.c_str(), 0), hixl::PARAM_INVALID, "timeout_in_millis");
  // One that is silent takes the time of the only thread: two more calls fit into the queue.
  const Meeting meeting(geteuid(), name_of(2));
  const int silent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT(bind(silent, meeting.generic(), meeting.length) == 0 && listen(silent, 5) == 0);
  OK(here.ConnectAsync(name_of(2).c_str(), 500));
  hixl::AsyncConnectStatus status{};
  while (status != hixl::AsyncConnectStatus::CONNECTING) OK(here.GetAsyncConnectStatus(name_of(2).c_str(), status));
  OK(here.ConnectAsync(nobody.c_str()));
  OK(here.ConnectAsync(nobody.c_str()));
  FAILS(here.ConnectAsync(nobody.c_str()), hixl::RESOURCE_EXHAUSTED, "2 calls");
  EXPECT(settled(name_of(2)) == hixl::AsyncConnectStatus::CONNECT_FAILED);
  close(silent);
}

TEST(connections_made_by_themselves) {
  Options options = kClientServer;
  options["AutoConnect"] = "1";
  Engine here(0, options);
  Memory local(4096), remote(4096);
  local.add_to(here);
  remote.fill(5);
  for (int round = 0; round < 2; ++round) {  // the second finds what is left of the first
    Engine there(1);
    remote.add_to(there);
    OK(here.TransferSync(name_of(1).c_str(), hixl::READ, whole(local, remote.address())));
    EXPECT(local.holds(5));
    FAILS(here.TransferSync(name_of(1).c_str(), hixl::READ, whole(local, remote.address() + 1)), hixl::PARAM_INVALID, "remote");
    EXPECT_EQ(here.Disconnect(name_of(1).c_str()), hixl::NOT_CONNECTED);
    OK(here.TransferSync(name_of(1).c_str(), hixl::READ, whole(local, remote.address())));
  }
  EXPECT_EQ(here.TransferSync(name_of(0).c_str(), hixl::READ, whole(local, remote.address())), hixl::PARAM_INVALID);
}

TEST(a_pool_of_buffers) {
  Engine here(0, {}), there(1, {}), without(2);
  Memory device(4096), remote(4096), host(4096, false), far(4096, false);
  remote.fill(6);
  far.fill(7);
  remote.add_to(there);
  remote.add_to(without);
  const std::string name = name_of(1), other = name_of(2);
  const auto read = [&](const std::string& from, const Memory& local, uintptr_t address) {
    return here.TransferSync(from.c_str(), hixl::READ, whole(local, address));
  };
  OK(here.Connect(name.c_str()));
  OK(here.Connect(other.c_str()));
  // Memory that was not registered is the host's, on both sides.
  OK(read(name, host, remote.address()));
  EXPECT(host.holds(6));
  OK(read(name, host, far.address()));
  EXPECT(host.holds(7));
  OK(read(other, host, remote.address()));
  FAILS(read(other, host, far.address()), hixl::PARAM_INVALID, "remote memory");
  FAILS(read(name, device, remote.address()), hixl::PARAM_INVALID, "not of the host");
  FAILS(read(name, host, device.address()), hixl::PARAM_INVALID, "remote memory");
  hixl::TransferReq request = nullptr;
  FAILS(here.TransferAsync(name.c_str(), hixl::READ, whole(host, remote.address()), {}, request), hixl::PARAM_INVALID,
        "local memory");
  // An address where nothing is costs the connection, not the process.
  FAILS(read(name, host, 64), hixl::FAILED, "the connection ended");
  OK(here.Disconnect(name.c_str()));
  OK(here.Connect(name.c_str()));
  FAILS(here.TransferSync(name.c_str(), hixl::WRITE, {{64, far.address(), 4096}}), hixl::FAILED, "not there");
}

TEST(options) {
  OK(aclrtSetDevice(0));
  const auto initialize = [](const char* name, const Options& options) { return hixl::Hixl().Initialize(name, options); };
  const std::string name = name_of(0);
  const auto refused = [&](const char* option, const char* value, bool client_server = false) {
    Options options = client_server ? kClientServer : Options{};
    options[option] = value;
    return initialize(name.c_str(), options) == hixl::PARAM_INVALID;
  };
  const auto taken = [&](const char* option, const char* value) {
    return initialize(name.c_str(), {{option, value}}) == hixl::SUCCESS;
  };
  EXPECT(refused("InvalidOption", "1") && refused("AutoConnect", "") && refused("AutoConnect", "2"));
  EXPECT(refused("RdmaTrafficClass", "6") && refused("adxl.RdmaTrafficClass", "256") && taken("adxl.RdmaTrafficClass", "132"));
  EXPECT(refused("RdmaServiceLevel", "8") && taken("RdmaServiceLevel", "7"));
  EXPECT(refused("BufferPool", "4") && taken("BufferPool", "4:8") && taken("adxl.BufferPool", "0:0") &&
         refused("BufferPool", "4:8", true));
  EXPECT(refused("LocalCommRes", "{") && taken("LocalCommRes", R"({"version": "1.2"})"));
  EXPECT(refused("GlobalResourceConfig", "[]") && taken("GlobalResourceConfig", ""));
  EXPECT(refused("GlobalResourceConfig", R"({"connect_pool.thread_num": 65})"));
  EXPECT(refused("GlobalResourceConfig", R"({"comm_resource_config.protocol_desc": ["ub_ctp:device"]})"));  // of Ascend 950
  EXPECT(taken("GlobalResourceConfig", R"({"comm_resource_config.protocol_desc": "hccs:device"})"));
  EXPECT(refused("GlobalResourceConfig", R"({"local_comm_res_path": "/nowhere"})"));
  EXPECT(taken("EnableUseFabricMem", "0") && refused("EnableUseFabricMem", "0", true));
  EXPECT_EQ(initialize(name.c_str(), {{"EnableUseFabricMem", "1"}}), hixl::UNSUPPORTED);
}

TEST(names) {
  OK(aclrtSetDevice(0));
  const auto initialize = [](const char* name) { return hixl::Hixl().Initialize(name, {}); };
  for (const char* wrong : {"", "host:1", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:1x", "[::1:5", "[::1]5"}) {
    FAILS(initialize(wrong), hixl::PARAM_INVALID, "address:port");
  }
  FAILS(initialize("203.0.113.7:16000"), hixl::FAILED, "cannot be taken");  // no address of this machine
  Engine first(0), second(1);
  FAILS(initialize(name_of(0).c_str()), hixl::FAILED, "cannot be taken");
  FAILS(first.Connect(name_of(0).c_str()), hixl::PARAM_INVALID, "this engine itself");
  FAILS(first.Connect("nobody"), hixl::PARAM_INVALID, "address:port");
  FAILS(first.Connect(name_of(1).c_str(), 0), hixl::PARAM_INVALID, "timeout_in_millis");
  // Without a port it connects, and nobody to it.
  hixl::Hixl client;
  OK(client.Initialize("127.0.0.1", {}));
  OK(client.Connect(name_of(1).c_str()));
  EXPECT_EQ(second.Connect("127.0.0.1"), hixl::FAILED);
  client.Finalize();
  FAILS(client.Connect(name_of(1).c_str()), hixl::FAILED, "not initialized");
  const std::string six = "[::1]:" + name_of(2).substr(10);
  hixl::Hixl third;
  if (third.Initialize(six.c_str(), {}) == hixl::SUCCESS) OK(first.Connect(six.c_str()));  // where there is IPv6
}

TEST(notifies) {
  Engine here(0), there(1);
  const std::string name = name_of(1);
  FAILS(here.SendNotify(name.c_str(), {"a", "b"}), hixl::NOT_CONNECTED, "is not connected");
  OK(here.Connect(name.c_str()));
  OK(here.SendNotify(name.c_str(), {"first", std::string(1024, 'x').c_str()}));
  OK(here.SendNotify(name.c_str(), {"", ""}));
  FAILS(here.SendNotify(name.c_str(), {std::string(1025, 'x').c_str(), ""}), hixl::PARAM_INVALID, "1024");
  std::vector<hixl::NotifyDesc> notifies;
  OK(there.GetNotifies(notifies));
  EXPECT(notifies.size() == 2 && notifies[0].name == "first" && notifies[0].notify_msg.GetLength() == 1024);
  OK(there.GetNotifies(notifies));
  EXPECT(notifies.empty());
  for (int i = 0; i < 4096; ++i) OK(here.SendNotify(name.c_str(), {"n", ""}));
  FAILS(here.SendNotify(name.c_str(), {"n", ""}), hixl::RESOURCE_EXHAUSTED, "4096");
}

TEST(strangers_do_no_harm) {
  Engine here(0), there(1);
  Memory local(4096), remote(4096);
  local.add_to(here);
  remote.add_to(there);
  remote.fill(9);
  const auto closed = [](int fd) {  // by the engine, which says no more than what it offers
    char bytes[64];
    ssize_t got = 0, all = 0;
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0) all += got;
    close(fd);
    return all < 100;
  };
  const int idle = raw_connection(name_of(1));
  const int nonsense = raw_connection(name_of(1));
  EXPECT_EQ(send(nonsense, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
  EXPECT(closed(nonsense));
  const std::vector<std::array<uint32_t, 4>> requests = {{9, 1, 0, 0},           // no kind of request
                                                         {1, 0, 0, 0},           // no pieces
                                                         {2, 0xffffffff, 0, 0},  // 64 GiB of them
                                                         {3, 1025, 0, 0}};       // too long a text
  for (const auto& request : requests) {
    const int fd = raw_connection(name_of(1));
    char magic[16] = "softcann-hixl-2";
    EXPECT(send(fd, magic, sizeof magic, MSG_NOSIGNAL) == 16 && recv(fd, magic, sizeof magic, MSG_WAITALL) == 16);
    EXPECT_EQ(send(fd, request.data(), sizeof request, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof request));
    EXPECT(closed(fd));
  }
  OK(here.Connect(name_of(1).c_str()));
  OK(here.TransferSync(name_of(1).c_str(), hixl::READ, whole(local, remote.address())));
  EXPECT(local.holds(9));
  close(idle);
}

// Needs root, to become another user.
CHILD(other_user) {
  if (setuid(12345) != 0) return 2;
  const Meeting meeting(0, arguments[0]);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  if (connect(fd, meeting.generic(), meeting.length) != 0) return 3;
  char magic[16] = "softcann-hixl-2";
  send(fd, magic, sizeof magic, MSG_NOSIGNAL);
  return recv(fd, magic, sizeof magic, MSG_WAITALL) <= 0 ? 0 : 1;
}

TEST(a_process_without_free_descriptors_accepts_later) {
  Engine engine(0);
  const Meeting meeting(geteuid(), name_of(0));
  const int caller = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  rlimit before{};
  EXPECT(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{static_cast<rlim_t>(caller) + 1, before.rlim_max};  // the lowest free number was taken
  EXPECT(setrlimit(RLIMIT_NOFILE, &none) == 0);
  EXPECT(connect(caller, meeting.generic(), meeting.length) == 0);
  const std::clock_t began = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT(std::clock() - began < CLOCKS_PER_SEC / 10);  // of all threads
  EXPECT(setrlimit(RLIMIT_NOFILE, &before) == 0);
  const char magic[16] = "softcann-hixl-2";
  char answer[16] = {};
  EXPECT(write(caller, magic, sizeof magic) == sizeof magic && read(caller, answer, sizeof answer) == sizeof answer);
  EXPECT(std::memcmp(answer, magic, sizeof magic) == 0);
  close(caller);
}

TEST(another_user_is_not_served) {
  if (geteuid() != 0) return;
  Engine engine(0);
  EXPECT_EQ(test::run_child("other_user", {name_of(0)}), 0);
}

TEST(capabilities) {
  int32_t value = -1;
  OK(hixl::Hixl::GetCapability(hixl::AUTO_CONNECT, value));
  EXPECT_EQ(value, hixl::FEATURE_SUPPORTED);
  OK(hixl::Hixl::GetCapability(static_cast<hixl::FeatureType>(999), value));
  EXPECT_EQ(value, hixl::FEATURE_NOT_SUPPORTED);
  EXPECT_EQ(hixl::Hixl::GetCapability(static_cast<hixl::FeatureType>(-1), value), hixl::PARAM_INVALID);
}

TEST(a_device_is_set_first) {
  std::thread other([] { FAILS(hixl::Hixl().Initialize("127.0.0.1", {}), hixl::FAILED, "aclrtSetDevice"); });
  other.join();
}
