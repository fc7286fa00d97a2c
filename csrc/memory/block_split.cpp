#include "memory/block_split.h"

#include "memory/expandable_segment.h"

namespace torch_npu::memory {

Block* BlockSplitter::cover(Segment* segment) {
  Block* block = slab_.make();
  block->ptr = segment->base;
  block->size = segment->size;
  block->pool = segment->pool;
  block->segment = segment;
  block->type = segment->type;
  segment->first = block;
  return block;
}

bool BlockSplitter::should_split(const Block* block, size_t size, const FitRule& rule) {
  const size_t rest = block->size - size;
  if (rule.no_split) return false;
  if (block->type == kSmall || block->segment->expandable) return rest >= kMinBlock;
  return size < rule.max_split && rest > kSmallLimit;
}

Block* BlockSplitter::split(Block* block, size_t size) {
  Block* rest = slab_.make();
  rest->ptr = block->ptr + size;
  rest->size = block->size - size;
  rest->pool = block->pool;
  rest->segment = block->segment;
  rest->type = block->type;
  rest->prev = block;
  rest->next = block->next;
  if (rest->next) rest->next->prev = rest;
  block->next = rest;
  block->size = size;
  return rest;
}

// `neighbour` is detached and adjacent; its range joins `block`.
void BlockSplitter::absorb(Block* block, Block* neighbour) {
  if (neighbour == block->prev) {
    block->ptr = neighbour->ptr;
    block->prev = neighbour->prev;
    if (block->prev) block->prev->next = block;
    if (block->segment->first == neighbour) block->segment->first = block;
  } else {
    block->next = neighbour->next;
    if (block->next) block->next->prev = block;
  }
  block->size += neighbour->size;
  slab_.recycle(neighbour);
}

Block* BlockSplitter::release(Block* block, uint64_t now) {
  for (Block* neighbour : {block->prev, block->next}) {
    if (!neighbour || neighbour->state != BlockState::free) continue;
    detach(neighbour);
    absorb(block, neighbour);
  }
  block->state = BlockState::free;
  block->freed_at = now;
  count_inactive(block);
  block->pool->list(block).insert(block);
  return block;
}

Block* BlockSplitter::release_unmapped(Block* block) {
  for (Block* neighbour : {block->prev, block->next}) {
    if (!neighbour || neighbour->state != BlockState::unmapped) continue;
    detach(neighbour);
    absorb(block, neighbour);
  }
  block->state = BlockState::unmapped;
  block->pool->list(block).unmapped.insert(block);
  return block;
}

bool BlockSplitter::cache(Block* block) {
  if (!block->pool->classes.push(block)) return false;
  block->state = BlockState::cached;
  count_inactive(block);
  return true;
}

void BlockSplitter::detach(Block* block) {
  auto& list = block->pool->list(block);
  switch (block->state) {
    case BlockState::free:
      list.erase(block);
      discount_inactive(block);
      break;
    case BlockState::cached:
      discount_inactive(block);
      break;
    case BlockState::unmapped:
      list.unmapped.erase(block);
      break;
    default:
      break;
  }
  block->state = BlockState::detached;
}

void BlockSplitter::release_chain(Block* cached, uint64_t now) {
  while (cached) {
    Block* block = cached;
    cached = block->next_cached;
    detach(block);
    release(block, now);
  }
}

bool BlockSplitter::drain(StreamPool& pool, PoolType type, uint64_t now) {
  Block* list = pool.classes.drain(type);
  release_chain(list, now);
  return list != nullptr;
}

}  // namespace torch_npu::memory
