// What a rank says that knows the communicator's secret: to the root, and to the ranks above and below its own.
#include <fuzzer/FuzzedDataProvider.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "comm/tcp_engine.h"
#include "comm/tcp_mesh.h"
#include "rt/base/sync.h"

using namespace softcann;

namespace {

constexpr int64_t kMillisecond = 1000000;
constexpr uint32_t kRanks = 3;

Address loopback() {
  Address address{};
  address.family = AF_INET;
  address.bytes[0] = 127;
  address.bytes[3] = 1;
  return address;
}

// One call: a proved hello that may say anything, then bytes.
void call(FuzzedDataProvider& input, const RootInfo& info, int64_t deadline, std::vector<Socket>* kept) {
  Socket socket = Socket::connect(info.address, deadline);
  if (!socket.valid()) return;
  Hello hello{};
  hello.rank = input.ConsumeBool() ? input.ConsumeIntegralInRange<uint32_t>(0, kRanks) : input.ConsumeIntegral<uint32_t>();
  hello.ranks = input.ConsumeIntegralInRange<int>(0, 7) != 0 ? kRanks : input.ConsumeIntegral<uint32_t>();
  hello.patience_ms = input.ConsumeBool() ? 1000 : input.ConsumeIntegral<uint32_t>();
  input.ConsumeData(&hello.address, sizeof hello.address);
  hello.address.family = input.PickValueInArray<uint16_t>({AF_INET, AF_INET6, 0, 77});
  // Nothing but loopback is called from here.
  if (hello.address.family == AF_INET) std::copy_n(loopback().bytes, 4, hello.address.bytes);
  if (hello.address.family == AF_INET6) std::fill_n(hello.address.bytes, 15, uint8_t{0}), hello.address.bytes[15] = 1;
  Answer answer{};
  introduce(socket, info.secret, hello, std::min(deadline, now_ns() + 3 * kMillisecond), &answer);
  if (answer.text[sizeof answer.text - 1] != 0) __builtin_trap();
  const std::string more = input.ConsumeRandomLengthString(200);
  if (!more.empty()) socket.write(more.data(), more.size(), deadline);
  if (input.ConsumeBool()) kept->push_back(std::move(socket));
}

// A root that lies: what it answers carries the right proof.
void answer(FuzzedDataProvider& input, Acceptor& door, const Digest& secret, int64_t deadline) {
  const std::optional<Acceptor::Caller> caller = door.next(deadline);
  if (!caller) return;
  Answer said{};
  said.code = input.ConsumeBool() ? 0 : input.ConsumeIntegral<int32_t>();
  const std::string text = input.ConsumeBytesAsString(sizeof said.text);
  std::copy(text.begin(), text.end(), said.text);
  for (Address& address : said.addresses) {
    address = loopback();
    address.port = input.ConsumeIntegral<uint16_t>();
    address.family = input.PickValueInArray<uint16_t>({AF_INET, AF_INET, 0, 77});
  }
  caller->answer(secret, said, deadline);
}

}  // namespace

// The first byte says which side is the one that is tried.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  RootInfo info{};
  info.address = loopback();
  Socket listener = Socket::listen(&info.address);
  if (!listener.valid()) return 0;
  const int64_t begin = now_ns(), deadline = begin + 30 * kMillisecond;
  const bool root = input.ConsumeBool();
  Acceptor door(std::move(listener), info.secret);
  HcclResult code = HCCL_SUCCESS;
  bool connected = false;
  const Member member{root ? 0U : 1U, kRanks, 0, "fuzz", {}};
  std::thread tried(
      [&] { connected = !connect_all("fuzz", info, member, root ? &door : nullptr, deadline, &code).sockets.empty(); });
  std::vector<Socket> kept;
  for (int calls = input.ConsumeIntegralInRange<int>(1, 4); root && calls > 0; --calls) call(input, info, deadline, &kept);
  if (!root) answer(input, door, info.secret, deadline);
  tried.join();
  if (connected == (code != HCCL_SUCCESS)) __builtin_trap();  // either all are connected, or there is a reason
  if (now_ns() - begin > 5000 * kMillisecond) __builtin_trap();
  return 0;
}
