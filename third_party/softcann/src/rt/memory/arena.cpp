#include "rt/memory/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>

namespace softcann {

Arena::Arena(uint64_t capacity) : capacity_(capacity / kGranule * kGranule) {
  uint64_t entries = capacity_ / kGranule + 1;
  size_t words[kLevels];
  table_bytes_ = (entries * sizeof(Index) + 7) / 8 * 8;
  for (int level = 0; level < kLevels; ++level) {
    words[level] = entries / 64 + 1;
    table_bytes_ += words[level] * 8;
    entries = words[level];
  }
  tables_ = mmap(nullptr, table_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (tables_ == MAP_FAILED) throw std::bad_alloc();
  auto* at = static_cast<uint64_t*>(tables_);
  for (int level = 0; level < kLevels; ++level) {
    bits_[level] = at;
    at += words[level];
  }
  starts_ = reinterpret_cast<Index*>(at);
  std::fill_n(bins_, kBins, kNil);
  std::fill_n(bin_bits_, kBins / 64, 0);
}

Arena::~Arena() { munmap(tables_, table_bytes_); }

void Arena::clear() {
  std::lock_guard<std::mutex> lock(mutex_);
  // Merge everything into one free part, so that committed pages stay preferred.
  for (Index i = last_; i != kNil;) {
    const Index before = chunks_[i].before;
    unmark(chunks_[i].start);
    i = before;
  }
  chunks_.clear();
  unused_ = last_ = kNil;
  std::fill_n(bins_, kBins, kNil);
  std::fill_n(bin_bits_, kBins / 64, 0);
  set_used(0);
  if (top_ != 0) {
    last_ = new_chunk(0, top_, kNil, kNil);
    push_bin(last_);
  }
}

uint64_t Arena::used() {
  std::lock_guard<std::mutex> lock(mutex_);
  return used_ * kGranule;
}

void Arena::publish_used(std::atomic<uint64_t>* word) {
  std::lock_guard<std::mutex> lock(mutex_);
  published_ = word;
  set_used(used_);
}

void Arena::set_used(uint64_t granules) {
  used_ = granules;
  published_->store(granules * kGranule, std::memory_order_relaxed);
}

uint64_t Arena::peak() {
  std::lock_guard<std::mutex> lock(mutex_);
  return peak_ * kGranule;
}

uint64_t Arena::touched() {
  std::lock_guard<std::mutex> lock(mutex_);
  return top_ * kGranule;
}

// Bins hold sizes [2^k * (16 + s) / 16, 2^k * (16 + s + 1) / 16); sizes below 16 granules have a bin each.
int Arena::bin_of(uint64_t granules) {
  if (granules < kSubBins) return static_cast<int>(granules);
  const int log = 63 - std::countl_zero(granules);
  const auto sub = static_cast<int>((granules >> (log - 4)) & (kSubBins - 1));
  return std::min((log - 3) * kSubBins + sub, kBins - 1);
}

Arena::Index Arena::new_chunk(uint64_t start, uint64_t size, Index before, Index after) {
  Index index = unused_;
  if (index == kNil) {
    index = static_cast<Index>(chunks_.size());
    chunks_.emplace_back();
  } else {
    unused_ = chunks_[index].bin_after;
  }
  chunks_[index] = Chunk{start, size, before, after, kNil, kNil, false};
  mark(start, index);
  return index;
}

void Arena::drop_chunk(Index index) {
  unmark(chunks_[index].start);
  chunks_[index].bin_after = unused_;
  unused_ = index;
}

void Arena::push_bin(Index index) {
  const int bin = bin_of(chunks_[index].size);
  Chunk& chunk = chunks_[index];
  chunk.free = true;
  chunk.bin_before = kNil;
  chunk.bin_after = bins_[bin];
  if (bins_[bin] != kNil) chunks_[bins_[bin]].bin_before = index;
  bins_[bin] = index;
  bin_bits_[bin / 64] |= uint64_t{1} << (bin % 64);
}

void Arena::pop_bin(Index index) {
  Chunk& chunk = chunks_[index];
  chunk.free = false;
  const int bin = bin_of(chunk.size);
  if (chunk.bin_before != kNil) {
    chunks_[chunk.bin_before].bin_after = chunk.bin_after;
  } else {
    bins_[bin] = chunk.bin_after;
    if (bins_[bin] == kNil) bin_bits_[bin / 64] &= ~(uint64_t{1} << (bin % 64));
  }
  if (chunk.bin_after != kNil) chunks_[chunk.bin_after].bin_before = chunk.bin_before;
}

// A free chunk that holds an aligned piece of `granules`, taken out of its bin; the one freed last among those of the
// same bin, else the smallest bin above, where everything fits.
Arena::Index Arena::find_fit(uint64_t granules, uint64_t align) {
  const auto fits = [&](Index index) {
    const Chunk& chunk = chunks_[index];
    const uint64_t start = (chunk.start + align - 1) / align * align;
    return start + granules <= chunk.start + chunk.size;
  };
  const int own = bin_of(granules);
  for (int bin = own; bin < kBins;) {
    int tries = bin == own || align > 1 ? 64 : 1;
    for (Index i = bins_[bin]; i != kNil && tries > 0; i = chunks_[i].bin_after, --tries) {
      if (!fits(i)) continue;
      pop_bin(i);
      return i;
    }
    if (++bin == kBins) break;
    int word = bin / 64;
    uint64_t bits = bin_bits_[word] & (~uint64_t{0} << (bin % 64));
    while (bits == 0 && ++word < kBins / 64) bits = bin_bits_[word];
    if (bits == 0) break;
    bin = word * 64 + std::countr_zero(bits);
  }
  return kNil;
}

// A chunk from the never-used rest; the free chunk below it is used along when the rest alone is too small.
Arena::Index Arena::cut_top(uint64_t granules, uint64_t align) {
  const uint64_t end = capacity_ / kGranule;
  uint64_t start = (top_ + align - 1) / align * align;
  if (start + granules > end || start + granules < start) {
    if (last_ == kNil || !chunks_[last_].free) return kNil;
    start = (chunks_[last_].start + align - 1) / align * align;
    if (start + granules > end || start + granules < start) return kNil;
    pop_bin(last_);
    chunks_[last_].size = start + granules - chunks_[last_].start;
    top_ = start + granules;
    return last_;
  }
  if (start > top_) {
    // The gap that alignment leaves becomes an ordinary free chunk.
    const Index gap = new_chunk(top_, start - top_, last_, kNil);
    if (last_ != kNil) chunks_[last_].after = gap;
    last_ = gap;
    if (chunks_[gap].before != kNil && chunks_[chunks_[gap].before].free) {
      const Index left = chunks_[gap].before;
      pop_bin(left);
      last_ = merge(left, gap);
    }
    push_bin(last_);
  }
  const Index index = new_chunk(start, granules, last_, kNil);
  if (last_ != kNil) chunks_[last_].after = index;
  last_ = index;
  top_ = start + granules;
  return index;
}

// Cuts the chunk after `granules`; the rest becomes free.
void Arena::split(Index index, uint64_t granules) {
  const Chunk chunk = chunks_[index];
  if (chunk.size == granules) return;
  const Index rest = new_chunk(chunk.start + granules, chunk.size - granules, index, chunk.after);
  chunks_[index].size = granules;
  chunks_[index].after = rest;
  if (chunk.after != kNil) chunks_[chunk.after].before = rest;
  if (last_ == index) last_ = rest;
  push_bin(rest);
}

// Joins two neighbours (in no bin) into the left one.
Arena::Index Arena::merge(Index left, Index right) {
  chunks_[left].size += chunks_[right].size;
  chunks_[left].after = chunks_[right].after;
  if (chunks_[right].after != kNil) chunks_[chunks_[right].after].before = left;
  if (last_ == right) last_ = left;
  drop_chunk(right);
  return left;
}

uint64_t Arena::allocate(uint64_t bytes, uint64_t alignment) {
  if (bytes == 0 || bytes > capacity_) return kNone;
  const uint64_t granules = (bytes + kGranule - 1) / kGranule;
  const uint64_t align = std::max<uint64_t>(1, alignment / kGranule);
  std::lock_guard<std::mutex> lock(mutex_);
  Index index = find_fit(granules, align);
  if (index == kNil) index = cut_top(granules, align);
  if (index == kNil) return kNone;
  const uint64_t lead = (chunks_[index].start + align - 1) / align * align - chunks_[index].start;
  if (lead != 0) {
    split(index, lead);
    const Index rest = chunks_[index].after;
    pop_bin(rest);
    push_bin(index);
    index = rest;
  }
  split(index, granules);
  set_used(used_ + granules);
  peak_ = std::max(peak_, used_);
  return chunks_[index].start * kGranule;
}

uint64_t Arena::release(uint64_t offset) {
  std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t granule = offset / kGranule;
  if (offset % kGranule != 0 || granule >= top_) return 0;
  if ((bits_[0][granule / 64] >> (granule % 64) & 1) == 0) return 0;
  Index index = starts_[granule];
  if (chunks_[index].free) return 0;
  const uint64_t size = chunks_[index].size;
  set_used(used_ - size);
  const Index after = chunks_[index].after;
  if (after != kNil && chunks_[after].free) {
    pop_bin(after);
    merge(index, after);
  }
  const Index before = chunks_[index].before;
  if (before != kNil && chunks_[before].free) {
    pop_bin(before);
    index = merge(before, index);
  }
  push_bin(index);
  return size * kGranule;
}

bool Arena::find(uint64_t offset, uint64_t* start, uint64_t* size) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (offset / kGranule >= top_) return false;
  const Chunk& chunk = chunks_[starts_[mark_before(offset / kGranule)]];
  if (chunk.free) return false;
  *start = chunk.start * kGranule;
  *size = chunk.size * kGranule;
  return true;
}

void Arena::mark(uint64_t start, Index index) {
  starts_[start] = index;
  for (uint64_t* level : bits_) {
    uint64_t& word = level[start / 64];
    const bool was_empty = word == 0;
    word |= uint64_t{1} << (start % 64);
    if (!was_empty) return;
    start /= 64;
  }
}

void Arena::unmark(uint64_t start) {
  for (uint64_t* level : bits_) {
    uint64_t& word = level[start / 64];
    word &= ~(uint64_t{1} << (start % 64));
    if (word != 0) return;
    start /= 64;
  }
}

// The largest marked granule at or before `granule`. Granule 0 is always marked once anything is.
uint64_t Arena::mark_before(uint64_t granule) const {
  uint64_t at = granule;
  for (int level = 0; level < kLevels; ++level) {
    const uint64_t word = bits_[level][at / 64] & (~uint64_t{0} >> (63 - at % 64));
    if (word != 0) {
      at = at / 64 * 64 + 63 - std::countl_zero(word);
      while (level-- > 0) at = at * 64 + 63 - std::countl_zero(bits_[level][at]);
      return at;
    }
    at /= 64;
    if (at == 0) break;
    at -= 1;  // the words before this one
  }
  return 0;
}

}  // namespace softcann
