// The connections of one rank to all others, and the thread that serves them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/operation.h"
#include "comm/socket.h"

namespace softcann {

// What precedes the data on a connection.
struct Frame {
  enum Type : uint32_t { kCollective, kMessage, kInvite, kWithdraw, kFailure, kLeave, kReady, kAsk, kWaiting };
  uint32_t type;
  uint32_t step;    // of the collective
  uint64_t number;  // of the collective or message; an invitation's key; a failure's code; of a question and its answer
  Call call;
  uint64_t bytes;

  // Nothing that another rank sends is believed before it is looked at: no rank sends such a frame.
  bool plausible() const;
};

// Note [Frames]
// A sender does not ask whether the receiver is ready: the thread reads all there is, to where it is expected, or else
// into memory where it is kept until it is. So no order of operations on several streams can lock two ranks up. That memory
// grows as the data come: what a header merely announces costs nothing.
//
// Note [Who is to blame]
// The first rank that finds something wrong tells all others, and these tell all others, before their clients hear of it: who
// then ends its process is not taken for the cause. And a rank whose time is over asks the others what they wait for. Each one's
// thread answers as long as its process runs, so whoever does not answer, or waits for nobody, holds up all the rest. Of ranks on
// this machine the kernel knows more: those that have ended or are stopped are told of first, for who is late may merely be slow.
class TcpEngine {
 public:
  // Something that is sent or expected; done when its buffer is free to use.
  struct Transfer {
    Frame frame{};
    char* data = nullptr;
    uint64_t moved = 0;  // of the header and the data together when sending, of the data when receiving
    bool done = false;
    std::vector<char> own;  // holds what `data` points to, if the engine owns it
  };

  using Transfers = std::vector<std::pair<uint32_t, std::shared_ptr<Transfer>>>;

  TcpEngine(uint32_t rank, std::vector<Socket> sockets);
  ~TcpEngine();

  // The data must stay until the transfer is done.
  std::shared_ptr<Transfer> send(uint32_t peer, const Frame& frame, const char* data);
  // What comes must have the frame's type, number and step. Its call and size are the receiver's to check: they are in
  // the transfer's frame when it is done, and if the size is another one nothing is written to `data`.
  std::shared_ptr<Transfer> expect(uint32_t peer, const Frame& frame, char* data);
  // Whether something is left for one of the collectives that have ended; if so, what belongs to the first of them, and its
  // sender.
  bool left_over(const std::map<uint64_t, Call>& ended, uint32_t* peer, Frame* frame);
  // False when the communicator is broken, a peer has left, or the time is over; then *missing has the peers that did not come,
  // and the buffers are not used any more.
  bool wait(const Transfers& transfers, int64_t deadline_ns, uint64_t* missing);
  // Asks who holds up those that are missing. A text for the error, empty where there is nothing to add.
  std::string why(uint64_t missing);

  // Returns when the others have been told, or cannot be.
  void fail(HcclResult code, const std::string& text);
  HcclResult failure(std::string* text) const;
  // Tells the others and stops when everything is sent.
  void leave();
  bool invited(uint32_t rank, uint64_t key, void* data, size_t bytes);
  void invite(const Frame& frame, const void* data, size_t bytes);

 private:
  struct Peer {
    Socket socket;
    Address address;
    std::deque<std::shared_ptr<Transfer>> outgoing, expected, unexpected;
    Frame header{};
    uint64_t header_read = 0;
    std::shared_ptr<Transfer> incoming;  // whose data are being read
    bool expected_incoming = false;
    bool left = false;
    bool reading = false;    // the thread is copying to `incoming`
    uint64_t answered = 0;   // the latest question that it has answered,
    uint64_t waits_for = 0;  // and how
  };

  bool wait_locked(const Transfers& transfers, int64_t deadline_ns, uint64_t* missing, std::unique_lock<std::mutex>& lock);
  uint64_t not_done(const Transfers& transfers) const;
  void serve();
  void read_from(uint32_t rank, std::unique_lock<std::mutex>& lock);
  bool write_to(Peer& peer);
  void start_data(uint32_t rank);
  void make_room(Peer& peer);
  void finish_data(uint32_t rank);
  void deliver(Peer& peer, const Frame& frame, const char* data);
  void cancel(uint32_t rank, const std::shared_ptr<Transfer>& transfer, std::unique_lock<std::mutex>& lock);
  void lose(uint32_t rank);
  void hang_up(Peer& peer);
  void fail_locked(HcclResult code, const std::string& text);
  // Makes the failure known here when it is known elsewhere.
  void publish();
  // Before everything that is not on its way yet.
  void push_first(Peer& peer, const Frame& frame, const std::string& text);
  void answer(Peer& peer, uint64_t question);
  void wake();
  static bool same(const Frame& a, const Frame& b) { return a.type == b.type && a.number == b.number && a.step == b.step; }

  const uint32_t rank_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::vector<std::map<uint64_t, std::vector<char>>> invitations_;
  Socket wake_fd_;
  bool stopping_ = false;
  HcclResult code_ = HCCL_SUCCESS;
  std::string text_;
  int64_t publish_by_ns_ = 0;
  std::atomic<bool> broken_{false};      // `code_` is known to the others, or they cannot be told
  std::vector<const Transfers*> waits_;  // of this rank's threads
  uint64_t overdue_ = 0;                 // whom a wait missed whose time is over: the failure that tells of it is still to come
  uint64_t questions_ = 0;
  std::thread thread_;
};

}  // namespace softcann
