// Sockets: addresses, connecting, whole reads and writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace softcann {

struct Address {
  uint16_t family = 0;  // AF_INET, AF_INET6 or 0: none
  uint16_t port = 0;
  uint8_t bytes[16] = {};

  std::string text() const;
};

// Where a root accepts ranks of other machines: at HCCL_IF_IP if that is set, at loopback if all ranks are known to be on
// this machine, else at its first other address. Without a family when HCCL_IF_IP is not an address.
Address listening_address();

// Owns a descriptor.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { reset(); }

  int fd() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release();
  void reset();

  // A socket that accepts connections at any port of the address; *address becomes what others connect to.
  static Socket listen(Address* address);
  static Socket connect(const Address& address, int64_t deadline_ns);
  // The next connection, or none when the time is over.
  Socket accept(int64_t deadline_ns) const;
  // None when nobody is waiting; the listening socket must not block.
  Socket accept_now() const;
  Address peer() const;
  Address local() const;
  // Of a socket of this machine (AF_UNIX): whether the process on the other side is of this one's user, as the kernel says.
  bool of_same_user() const;

  // Everything or nothing; false when the connection broke or the time is over.
  bool write(const void* data, size_t bytes, int64_t deadline_ns) const;
  bool read(void* data, size_t bytes, int64_t deadline_ns) const;
  void set_nonblocking() const;

 private:
  int fd_ = -1;
};

}  // namespace softcann
