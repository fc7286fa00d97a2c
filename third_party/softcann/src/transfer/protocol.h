// What engines say to each other over a connection.
//
// Note [Transfers]
// An engine with a port accepts connections, each served by a thread of its own; the engine that connects is the one that reads
// and writes. A request is a header and as many pieces as it says. The serving side looks each piece up in what its engine had
// registered when the connection was made, and answers; only then do bytes travel, from the memory of one side to that of the
// other without a stop between. So neither side can make the other touch what was not offered to it, nor allocate more than
// kMostPieces pieces. An engine with a pool of buffers offers all of its process's host memory, as CANN's does; the kernel
// copies, so that an address where nothing is ends the connection and not the process.
#pragma once

#include <atomic>
#include <cstdint>

namespace softcann::transfer {

inline constexpr char kMagic[16] = "softcann-hixl-2";
inline constexpr uint32_t kMostPieces = 1 << 16;
inline constexpr uint32_t kMostNotifyText = 1024;
inline constexpr uint64_t kMostPieceBytes = uint64_t{1} << 44;

// The serving side's answer to the magic, and then `count` pieces: what it has registered, which the other side checks its
// transfers against, too, before it sends anything.
struct Greeting {
  char magic[16];
  uint32_t pool;  // of buffers: 1 if it has one
  uint32_t count;
};

enum class Kind : uint32_t { read = 1, write = 2, notify = 3 };

// Followed by `first` pieces, of which `second` says whether they may go by way of a pool of buffers; or by `first` and `second`
// bytes of a notify's name and text.
struct Request {
  Kind kind;
  uint32_t first, second;
  uint32_t reserved;
};

struct Piece {
  uint64_t address, bytes;
};

// To a request; to a write twice, before and after its data. `code` is a status of hixl.
struct Reply {
  uint32_t code;
  uint32_t reserved;
};

// Both sides call it before they send and after they have received. Where they are threads of one process, a socket orders what
// they do to memory all the same, but not in the eyes of the thread sanitizer, nor of the language.
inline std::atomic<uint32_t> exchanges{0};
inline void order_memory() { exchanges.fetch_add(1, std::memory_order_acq_rel); }

}  // namespace softcann::transfer
