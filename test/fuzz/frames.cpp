// What a rank that has been let in sends over TCP, true or not, while this one calls collectives and messages of its own.
#include <fuzzer/FuzzedDataProvider.h>
#include <sys/socket.h>

#include "comm/tcp_transport.h"
#include "rt/base/error.h"
#include "rt/base/sync.h"

using namespace softcann;

namespace {

constexpr uint64_t kElements = 64;
constexpr int64_t kSecond = 1000000000;

// Few kinds, types and counts, so that frames fit what is called here again and again.
Call make_call(FuzzedDataProvider& input) {
  Call call{};
  call.kind = input.PickValueInArray<uint8_t>({HCCL_CMD_ALLREDUCE, HCCL_CMD_BROADCAST, HCCL_CMD_ALLGATHER, HCCL_CMD_REDUCE,
                                               HCCL_CMD_REDUCE_SCATTER, HCCL_CMD_ALLTOALL, HCCL_CMD_SCATTER});
  call.type = input.PickValueInArray<uint8_t>({HCCL_DATA_TYPE_INT8, HCCL_DATA_TYPE_FP32, HCCL_DATA_TYPE_INT64});
  call.op = input.PickValueInArray<uint8_t>({HCCL_REDUCE_SUM, HCCL_REDUCE_MAX});
  call.root = input.ConsumeIntegralInRange<uint32_t>(0, 1);
  call.count = input.ConsumeIntegralInRange<uint64_t>(0, kElements);
  return call;
}

void append(std::string* bytes, const void* data, size_t size) { bytes->append(static_cast<const char*>(data), size); }

void append_frame(FuzzedDataProvider& input, const Call& call, std::string* sent) {
  Frame frame{};
  frame.type = input.ConsumeIntegralInRange<uint32_t>(0, 9);
  frame.step = input.ConsumeIntegralInRange<uint32_t>(0, 1);
  frame.number = input.ConsumeBool() ? input.ConsumeIntegralInRange<uint64_t>(0, 2) : input.ConsumeIntegral<uint64_t>();
  frame.call = call;
  if (input.ConsumeBool()) input.ConsumeData(&frame.call, sizeof frame.call);
  const uint64_t block = call.count * bytes_of(static_cast<HcclDataType>(call.type));
  frame.bytes = input.ConsumeBool() ? block : input.ConsumeIntegralInRange<uint64_t>(0, 600);
  std::string data(frame.bytes, 'x');
  if (input.ConsumeIntegralInRange<int>(0, 9) == 0) frame.bytes = input.ConsumeIntegral<uint64_t>();
  append(sent, &frame, sizeof frame);
  *sent += data;
}

// 0 when the client was told.
bool carry_out(TcpTransport& transport, const Call& call, bool as_message, bool send, std::vector<char>* out,
               std::vector<char>* in) {
  Operation operation{};
  operation.call = call;
  operation.send = Buffer{out->data(), out->size(), 0};
  operation.receive = Buffer{in->data(), in->size(), 0};
  if (as_message) {
    const uint64_t bytes = call.count * bytes_of(static_cast<HcclDataType>(call.type));
    operation.messages.push_back(Message{send, 1, call, Buffer{send ? out->data() : in->data(), bytes, 0}});
  }
  transport.number(operation);
  return transport.run(operation, false) == ACL_SUCCESS;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) __builtin_trap();
  Socket stranger(ends[1]);
  std::vector<Socket> sockets(2);
  sockets[1] = Socket(ends[0]);
  TcpTransport transport(0, {std::move(sockets), {}}, 1);
  const Call call = make_call(input);
  const bool as_message = input.ConsumeBool(), send = input.ConsumeBool();
  std::string sent;
  for (int frames = input.ConsumeIntegralInRange<int>(1, 8); frames > 0; --frames) append_frame(input, call, &sent);
  sent += input.ConsumeRemainingBytesAsString();
  // What does not fit is not sent; then the connection ends, so that nothing here has to wait for its time to be over.
  if (::send(stranger.fd(), sent.data(), sent.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return 0;
  shutdown(stranger.fd(), SHUT_WR);

  const int64_t begin = now_ns();
  std::vector<char> out(2 * kElements * 8, 1), in(2 * kElements * 8);
  bool well = true;
  for (int calls = 0; calls < 2 && well; ++calls) well = carry_out(transport, call, as_message, send, &out, &in);
  std::string text;
  if (!well && (transport.failure(&text) == HCCL_SUCCESS || text.size() > 65536)) __builtin_trap();
  char invitation[8];
  transport.invited(1, 1, invitation, sizeof invitation);
  stranger.reset();
  transport.leave();
  if (now_ns() - begin > 5 * kSecond) __builtin_trap();
  return 0;
}
