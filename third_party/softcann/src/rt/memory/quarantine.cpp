#include "rt/memory/quarantine.h"

#include <deque>
#include <mutex>
#include <unordered_set>

namespace softcann::check {
namespace {

struct Piece {
  Device* device;
  uint64_t offset, size;
};

struct State {
  std::mutex mutex;
  std::deque<Piece> pieces;  // the oldest first
  std::unordered_set<uintptr_t> begins;
  uint64_t bytes = 0;
};

State& state() {
  static auto* instance = new State;
  return *instance;
}

// The caller holds the lock.
bool end_rest(const Device* device) {
  State& all = state();
  for (auto it = all.pieces.begin(); it != all.pieces.end(); ++it) {
    if (device != nullptr && it->device != device) continue;
    all.begins.erase(it->device->base() + it->offset);
    all.bytes -= it->size;
    it->device->arena.release(it->offset);
    all.pieces.erase(it);
    return true;
  }
  return false;
}

}  // namespace

bool let_rest(Device* device, uint64_t offset) {
  uint64_t start = 0, size = 0;
  State& all = state();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (!device->arena.find(offset, &start, &size) || start != offset || !all.begins.insert(device->base() + offset).second)
    return false;
  all.pieces.push_back({device, offset, size});
  all.bytes += size;
  while (all.bytes > device->arena.capacity() / 4 && all.pieces.size() > 1) end_rest(nullptr);
  return true;
}

bool rests(uintptr_t begin) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return state().begins.count(begin) != 0;
}

bool end_oldest_rest(Device* device) {
  const std::lock_guard<std::mutex> lock(state().mutex);
  return end_rest(device);
}

}  // namespace softcann::check
