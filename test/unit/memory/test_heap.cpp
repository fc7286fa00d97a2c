// The heap's behaviour, one mechanism a test, on a fake device.
#include "helpers.h"

TEST(small_requests_share_a_segment) {
  Fixture f;
  Block* a = f.heap.allocate(100, 0);
  Block* b = f.heap.allocate(600, 0);
  EXPECT_EQ(f.now("allocated_bytes"), 512 + 1024);
  EXPECT_EQ(f.now("requested_bytes"), 700);
  EXPECT_EQ(f.now("reserved_bytes"), int64_t(2 * kMiB));
  EXPECT_EQ(f.now("reserved_bytes", 1), int64_t(2 * kMiB));
  EXPECT_EQ(f.now("segment"), 1);
  EXPECT_EQ(f.now("inactive_split_bytes"), int64_t(2 * kMiB - 1536));
  EXPECT_EQ(b->ptr, a->ptr + 512);
  f.heap.free(a);
  EXPECT_EQ(f.now("allocated_bytes"), 1024);
  EXPECT_EQ(f.now("active"), 1);
  EXPECT_EQ(f.now("inactive_split"), 2);
  f.heap.free(b);
  EXPECT_EQ(f.row("allocated_bytes").peak, 1536);
  EXPECT_EQ(f.row("allocated_bytes").freed, 1536);
  EXPECT_EQ(f.now("active_bytes"), 0);
}

TEST(segment_sizes) {
  Fixture f;
  f.heap.allocate(kMiB + 1, 0);
  EXPECT_EQ(f.now("reserved_bytes"), int64_t(20 * kMiB));
  f.heap.allocate(10 * kMiB, 0);  // fits into the rest
  EXPECT_EQ(f.now("reserved_bytes"), int64_t(20 * kMiB));
  f.heap.allocate(11 * kMiB, 0);
  EXPECT_EQ(f.now("reserved_bytes", 2), int64_t(32 * kMiB));
}

TEST(a_freed_block_comes_back_for_its_size) {
  Fixture f;
  Block* a = f.heap.allocate(1000, 0);
  Block* b = f.heap.allocate(1000, 0);
  f.heap.free(a);
  f.heap.free(b);
  EXPECT(f.heap.allocate(1024, 0) == b);  // last in, first out; same class
  EXPECT(f.heap.allocate(900, 0) == a);
  Block* big = f.heap.allocate(64 * kMiB, 0);
  f.heap.free(big);
  EXPECT(f.heap.allocate(64 * kMiB, 0) == big);
  EXPECT_EQ(f.device.allocations, 2);
}

TEST(cached_blocks_merge_before_the_pool_grows) {
  Fixture f;
  std::vector<Block*> blocks;
  for (int i = 0; i < 4096; ++i) blocks.push_back(f.heap.allocate(512, 0));
  EXPECT_EQ(f.device.allocations, 1);
  for (auto* block : blocks) f.heap.free(block);
  for (int i = 0; i < 2; ++i) f.heap.allocate(kMiB, 0);
  EXPECT_EQ(f.device.allocations, 1);
  EXPECT_EQ(f.now("inactive_split"), 0);
}

TEST(large_blocks_merge_for_a_larger_request) {
  Fixture f;
  Block* a = f.heap.allocate(6 * kMiB, 0);
  Block* b = f.heap.allocate(6 * kMiB, 0);
  Block* c = f.heap.allocate(6 * kMiB, 0);
  char* start = a->ptr;
  f.heap.free(a);
  f.heap.free(b);
  EXPECT(f.heap.allocate(12 * kMiB, 0)->ptr == start);
  f.heap.free(c);
  EXPECT_EQ(f.device.allocations, 1);
}

TEST(streams_do_not_share) {
  Fixture f;
  Block* a = f.heap.allocate(1000, 0);
  f.heap.free(a);
  Block* b = f.heap.allocate(1000, 9);
  EXPECT(b != a);
  EXPECT_EQ(f.device.allocations, 2);
}

TEST(record_stream_delays_reuse) {
  Fixture f;
  Block* a = f.heap.allocate(4 * kMiB, 0);
  f.heap.record_stream(a, stream_on(9));
  f.heap.record_stream(a, stream_on(9));
  f.heap.record_stream(a, stream_on(17));
  f.heap.record_stream(a, stream_on(0));  // its own
  f.heap.free(a);
  EXPECT_EQ(f.now("allocated_bytes"), 0);
  EXPECT_EQ(f.now("active_bytes"), int64_t(4 * kMiB));
  EXPECT_EQ(f.now("active"), 1);
  EXPECT_EQ(f.device.events, 2);
  Block* b = f.heap.allocate(4 * kMiB, 0);
  EXPECT(b != a);
  EXPECT_EQ(f.row("active_bytes").peak, int64_t(8 * kMiB));
  f.device.run(9);
  EXPECT_EQ(f.now("active"), 2);
  f.device.run(17);
  EXPECT_EQ(f.now("active_bytes"), int64_t(4 * kMiB));
  EXPECT(f.heap.allocate(4 * kMiB, 0) == a);
  // Events are used again.
  f.heap.record_stream(b, stream_on(9));
  f.heap.free(b);
  EXPECT_EQ(f.device.events, 2);
}

TEST(a_failed_stream_holds_nothing_back) {
  Fixture f;
  Block* a = f.heap.allocate(4 * kMiB, 0);
  f.heap.record_stream(a, stream_on(9));
  f.device.broken_stream = 9;
  f.heap.free(a);
  EXPECT_EQ(f.now("active"), 0);
  EXPECT(f.heap.allocate(4 * kMiB, 0) == a);
}

TEST(empty_cache_returns_whole_segments) {
  Fixture f;
  Block* a = f.heap.allocate(1000, 0);
  Block* b = f.heap.allocate(30 * kMiB, 0);
  Block* c = f.heap.allocate(5 * kMiB, 0);
  f.heap.free(b);
  f.heap.free(c);
  f.heap.empty_cache();
  EXPECT_EQ(f.now("reserved_bytes"), int64_t(2 * kMiB));
  EXPECT_EQ(f.device.used, 2 * kMiB);
  EXPECT_EQ(f.device.quiesces, 1);
  f.heap.free(a);
  f.heap.empty_cache();
  EXPECT_EQ(f.device.used, size_t{0});
  EXPECT_EQ(f.now("segment"), 0);
  EXPECT_EQ(f.scalar("num_device_free"), 3);
  EXPECT_EQ(f.device.errors, 0);
}

TEST(out_of_memory_frees_the_cache_first) {
  Fixture f(64 * kMiB);
  Block* a = f.heap.allocate(40 * kMiB, 0);
  f.heap.free(a);
  Block* b = f.heap.allocate(50 * kMiB, 9);  // only fits once the other stream's cache is gone
  EXPECT_EQ(f.scalar("num_alloc_retries"), 1);
  EXPECT_EQ(f.scalar("num_ooms"), 0);
  f.heap.free(b);
}

TEST(out_of_memory_waits_for_events) {
  Fixture f(64 * kMiB);
  Block* a = f.heap.allocate(40 * kMiB, 0);
  f.heap.record_stream(a, stream_on(9));
  f.heap.free(a);
  EXPECT(f.heap.allocate(40 * kMiB, 0) == a);
  EXPECT_EQ(f.scalar("num_sync_all_streams"), 1);
}

TEST(emptying_the_cache_counts_as_a_wait_for_all_streams) {
  Fixture f(64 * kMiB);
  f.heap.empty_cache();
  EXPECT_EQ(f.scalar("num_sync_all_streams"), 1);
}

TEST(out_of_memory_says_the_figures_and_work_goes_on) {
  Fixture f(64 * kMiB);
  size_t asked = 0, free = 0;
  f.heap.add_observer([&](c10::DeviceIndex, size_t bytes, size_t, size_t left) {
    asked = bytes;
    free = left;
  });
  Block* a = f.heap.allocate(30 * kMiB, 0);
  EXPECT_THROWS(c10::OutOfMemoryError, "Tried to allocate 40.00 MiB on npu:0, which has 64.00 MiB in total and 34.00 MiB free",
                f.heap.allocate(40 * kMiB, 0));
  EXPECT_EQ(asked, 40 * kMiB);
  EXPECT_EQ(free, 34 * kMiB);
  EXPECT_EQ(f.scalar("num_ooms"), 1);
  EXPECT_THROWS(c10::OutOfMemoryError, "more than any device", f.heap.allocate(size_t(-1), 0));
  f.heap.free(a);
  f.heap.free(f.heap.allocate(60 * kMiB, 0));
}

TEST(memory_fraction) {
  Fixture f(100 * kMiB);
  f.heap.set_memory_fraction(0.5);
  EXPECT_EQ(f.heap.memory_fraction(), 0.5);
  Block* a = f.heap.allocate(40 * kMiB, 0);
  EXPECT_THROWS(c10::OutOfMemoryError, "at most 50.00 MiB", f.heap.allocate(20 * kMiB, 0));
  f.heap.free(a);
  f.heap.free(f.heap.allocate(50 * kMiB, 0));
  EXPECT_THROWS(c10::ValueError, "from 0 to 1", f.heap.set_memory_fraction(1.5));
  Fixture configured(100 * kMiB, "per_process_memory_fraction:0.3");
  EXPECT_THROWS(c10::OutOfMemoryError, "at most 30.00 MiB", configured.heap.allocate(40 * kMiB, 0));
}

TEST(max_split_size_keeps_large_blocks_whole) {
  Fixture f(1024 * kMiB, "max_split_size_mb:30");
  Block* a = f.heap.allocate(100 * kMiB, 0);
  EXPECT_EQ(f.heap.statistics().oversize[0].figures[0].current, 1);
  EXPECT_EQ(f.heap.statistics().oversize[1].figures[0].current, 1);
  f.heap.free(a);
  EXPECT_EQ(f.heap.statistics().oversize[0].figures[0].current, 0);
  Block* b = f.heap.allocate(20 * kMiB, 0);  // must not cut the 100 MiB block
  EXPECT(b->ptr != a->ptr);
  EXPECT_EQ(f.device.allocations, 2);
  Block* c = f.heap.allocate(90 * kMiB, 0);  // close enough: the whole block
  EXPECT(c == a);
  EXPECT_EQ(c->size, 100 * kMiB);
  f.heap.free(c);
  f.heap.allocate(60 * kMiB, 0);  // too much smaller: a segment of its own
  EXPECT_EQ(f.device.allocations, 3);
}

TEST(max_split_size_gives_oversize_blocks_back_first) {
  Fixture f(250 * kMiB, "max_split_size_mb:30");
  Block* a = f.heap.allocate(100 * kMiB, 0);
  Block* b = f.heap.allocate(60 * kMiB, 0);
  Block* small = f.heap.allocate(20 * kMiB, 0);
  f.heap.free(a);
  f.heap.free(b);
  f.heap.free(small);
  f.heap.allocate(150 * kMiB, 0);
  EXPECT_EQ(f.scalar("num_alloc_retries"), 0);
  EXPECT_EQ(f.now("reserved_bytes"), int64_t(170 * kMiB));
}

TEST(garbage_collection_returns_the_oldest) {
  Fixture f(100 * kMiB, "garbage_collection_threshold:0.6");
  Block* old = f.heap.allocate(30 * kMiB, 0);
  Block* recent = f.heap.allocate(32 * kMiB, 0);
  f.heap.free(old);
  Block* other = f.heap.allocate(2 * kMiB, 9);  // the old block is noticed here, and is whole
  f.heap.free(recent);
  f.heap.allocate(34 * kMiB, 0);
  EXPECT(f.now("reserved_bytes") <= int64_t(90 * kMiB));
  EXPECT_EQ(f.scalar("num_alloc_retries"), 0);
  (void)other;
}

TEST(power2_rounding) {
  Fixture f(1024 * kMiB, "roundup_power2_divisions:4");
  Block* a = f.heap.allocate(5 * kMiB + 1, 0);
  EXPECT_EQ(a->size, 6 * kMiB);
  EXPECT_EQ(f.now("requested_bytes"), int64_t(5 * kMiB + 1));
  f.heap.free(a);
  EXPECT(f.heap.allocate(5 * kMiB + 100, 0) == a);
}

TEST(no_caching) {
  Fixture f;
  f.heap.set_caching(false);
  Block* a = f.heap.allocate(1000, 0);
  EXPECT_EQ(f.device.used, size_t{1024});
  EXPECT_EQ(f.now("allocated_bytes"), 1024);
  f.heap.free(a);
  EXPECT_EQ(f.device.used, size_t{0});
  EXPECT_EQ(f.now("reserved_bytes"), 0);
  EXPECT_EQ(f.device.quiesces, 1);
  f.heap.set_caching(true);
  f.heap.free(f.heap.allocate(1000, 0));
  EXPECT_EQ(f.device.used, 2 * kMiB);
}

TEST(raw_addresses) {
  Fixture f;
  void* ptr = f.heap.allocate_raw(1000, 0);
  EXPECT(!f.heap.free_raw(static_cast<char*>(ptr) + 512));
  EXPECT(f.heap.free_raw(ptr));
  EXPECT(!f.heap.free_raw(ptr));
  EXPECT_EQ(f.now("allocated_bytes"), 0);
}

TEST(peaks_and_totals_reset) {
  Fixture f;
  Block* a = f.heap.allocate(1000, 0);
  Block* b = f.heap.allocate(3 * kMiB, 0);
  f.heap.free(b);
  EXPECT_EQ(f.row("active_bytes").peak, int64_t(3 * kMiB + 1024));
  f.heap.reset_peak_stats();
  EXPECT_EQ(f.row("active_bytes").peak, 1024);
  EXPECT_EQ(f.row("allocated_bytes").peak, 1024);
  f.heap.reset_accumulated_stats();
  EXPECT_EQ(f.row("allocated_bytes").allocated, 0);
  EXPECT_EQ(f.row("active").freed, 0);
  f.heap.free(a);
  EXPECT_EQ(f.row("active").freed, 1);
  EXPECT_EQ(f.row("allocation").freed, 1);
  EXPECT_EQ(f.now("allocation"), 0);
}

TEST(private_pools) {
  Fixture f;
  const MempoolId id{0, 7};
  f.heap.hold_pool(id, {});
  f.heap.free(f.heap.allocate(1000, 0));
  f.heap.begin_route(id, [](c10::Stream stream) { return stream.id() == 0; }, false);
  EXPECT_EQ(f.heap.pool_uses(id), 2);
  EXPECT_THROWS(c10::Error, "already go", f.heap.begin_route(id, [](c10::Stream) { return true; }, false));
  Block* a = f.heap.allocate(1000, 0);
  EXPECT_EQ(f.device.allocations, 2);
  Block* elsewhere = f.heap.allocate(1000, 9);
  EXPECT(!elsewhere->pool->owner);
  f.heap.end_route(id);
  f.heap.release_pool(id);
  f.heap.free(a);
  EXPECT(f.heap.allocate(1000, 0) != a);  // outside the pool
  EXPECT_EQ(f.heap.pool_bytes(id).first, 2 * kMiB);
  EXPECT_EQ(f.heap.snapshot(id).segments.size(), size_t{1});
  f.heap.empty_cache();  // the pool is still held
  EXPECT_EQ(f.heap.pool_bytes(id).first, 2 * kMiB);
  f.heap.release_pool(id);
  f.heap.empty_cache(id);
  EXPECT_EQ(f.heap.pool_bytes(id).first, size_t{0});
  EXPECT_THROWS(c10::Error, "not held", f.heap.release_pool(id));
}

TEST(a_capture_defers_events) {
  Fixture f;
  const MempoolId id{3, 0};
  f.heap.begin_route(id, [](c10::Stream) { return true; }, true);
  Block* a = f.heap.allocate(1000, 0);
  f.heap.record_stream(a, stream_on(9));
  f.heap.free(a);
  EXPECT_EQ(f.device.events, 0);
  EXPECT_EQ(f.now("active"), 1);
  f.heap.end_route(id);
  EXPECT_EQ(f.device.events, 1);
  f.device.run(9);
  EXPECT_EQ(f.now("active"), 0);
}

struct OwnMemory final : RawAllocator {
  void* allocate(size_t bytes, c10::DeviceIndex, c10::Stream) override {
    held += bytes;
    return reinterpret_cast<void*>(size_t{1} << 50);
  }
  void free(void*, size_t bytes, c10::DeviceIndex, c10::Stream) noexcept override { held -= bytes; }
  size_t held = 0;
};

TEST(a_pool_with_its_own_memory) {
  Fixture f;
  auto own = std::make_shared<OwnMemory>();
  const MempoolId id{0, 1};
  f.heap.hold_pool(id, {own, false, false});
  f.heap.begin_route(id, [](c10::Stream) { return true; }, false);
  Block* a = f.heap.allocate(3 * kMiB, 0);
  EXPECT_EQ(own->held, 20 * kMiB);
  EXPECT_EQ(f.device.used, size_t{0});
  f.heap.end_route(id);
  f.heap.release_pool(id);
  f.heap.free(a);
  f.heap.release_pool(id);
  f.heap.empty_cache(id);
  EXPECT_EQ(own->held, size_t{0});
}

TEST(a_pool_lends_on_out_of_memory) {
  Fixture f(64 * kMiB);
  const MempoolId id{0, 1};
  f.heap.hold_pool(id, {nullptr, true, false});
  f.heap.begin_route(id, [](c10::Stream) { return true; }, false);
  Block* a = f.heap.allocate(50 * kMiB, 0);
  char* start = a->ptr;
  f.heap.end_route(id);
  f.heap.free(a);
  EXPECT(f.heap.allocate(40 * kMiB, 0)->ptr == start);
}

TEST(expandable_segment_grows_in_place) {
  Fixture f(1024 * kMiB, "expandable_segments:True");
  Block* a = f.heap.allocate(15 * kMiB, 0);
  EXPECT_EQ(f.now("reserved_bytes"), int64_t(20 * kMiB));
  char* start = a->ptr;
  f.heap.free(a);
  Block* b = f.heap.allocate(35 * kMiB, 0);  // the free 20 MiB and one more granule
  EXPECT(b->ptr == start);
  EXPECT_EQ(f.now("reserved_bytes"), int64_t(40 * kMiB));
  EXPECT_EQ(f.now("segment"), 1);
  EXPECT_EQ(f.device.reservations, 1);
  const auto snapshot = f.heap.snapshot();
  EXPECT_EQ(snapshot.segments.size(), size_t{1});
  EXPECT_EQ(snapshot.segments[0].total_size, 40 * kMiB);
  EXPECT(snapshot.segments[0].expandable);
  f.heap.free(b);
  f.heap.empty_cache();
  EXPECT_EQ(f.device.used, size_t{0});
  EXPECT_EQ(f.device.reservations, 0);
  EXPECT_EQ(f.now("segment"), 0);
  EXPECT_EQ(f.device.errors, 0);
}

TEST(expandable_segment_returns_its_middle) {
  Fixture f(1024 * kMiB, "expandable_segments:True");
  Block* a = f.heap.allocate(20 * kMiB, 0);
  Block* b = f.heap.allocate(60 * kMiB, 0);
  Block* c = f.heap.allocate(20 * kMiB, 0);
  char* start = b->ptr;
  f.heap.free(b);
  f.heap.empty_cache();
  EXPECT_EQ(f.device.used, 40 * kMiB);
  EXPECT_EQ(f.heap.snapshot().segments.size(), size_t{2});
  EXPECT(f.heap.allocate(60 * kMiB, 0)->ptr == start);  // fills the hole again
  EXPECT_EQ(f.device.used, 100 * kMiB);
  (void)a, (void)c;
}

TEST(expandable_segment_at_capacity) {
  Fixture f(50 * kMiB, "expandable_segments:True");
  Block* a = f.heap.allocate(30 * kMiB, 0);
  EXPECT_THROWS(c10::OutOfMemoryError, "out of memory", f.heap.allocate(30 * kMiB, 0));
  EXPECT_EQ(f.device.used, 40 * kMiB);
  char* start = a->ptr;
  f.heap.free(a);
  EXPECT(f.heap.allocate(40 * kMiB, 0)->ptr == start);
  EXPECT_EQ(f.device.errors, 0);
}

struct FakeContext : c10::GatheredContext {};

TEST(history) {
  Fixture f;
  HistorySettings settings;
  settings.entries = true;
  settings.stacks = Stacks::all;
  settings.max_entries = 4;
  settings.gather = +[]() -> Context { return std::make_shared<FakeContext>(); };
  f.heap.record_history(settings, true);
  Block* a = f.heap.allocate(1000, 0);
  EXPECT(f.heap.context_of(a->ptr) != nullptr);
  auto trace = f.heap.snapshot().trace;
  EXPECT_EQ(trace.size(), size_t{3});
  EXPECT(trace[0].action == TraceAction::segment_alloc);
  EXPECT(trace[1].action == TraceAction::alloc);
  EXPECT_EQ(trace[1].size, size_t{1024});
  EXPECT(trace[1].context != nullptr);
  EXPECT(trace[2].action == TraceAction::snapshot);
  f.heap.free(a);
  trace = f.heap.snapshot().trace;
  EXPECT_EQ(trace.size(), size_t{4});  // the ring keeps the last four
  EXPECT(trace[1].action == TraceAction::free_requested);
  EXPECT(trace[2].action == TraceAction::free_completed);
  f.heap.record_history({}, true);
  a = f.heap.allocate(1000, 0);
  EXPECT(f.heap.context_of(a->ptr) == nullptr);
  EXPECT(f.heap.snapshot().trace.empty());
}

TEST(segment_of_an_address) {
  Fixture f;
  Block* a = f.heap.allocate(1000, 0);
  Block* b = f.heap.allocate(1000, 0);
  const auto found = f.heap.segment_of(b->ptr + 10);
  EXPECT(found && found->base == a->ptr && found->size == 2 * kMiB && !found->expandable);
  EXPECT(!f.heap.segment_of(a->ptr + 2 * kMiB));
}
