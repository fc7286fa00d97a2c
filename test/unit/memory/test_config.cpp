// Parsing of the allocator's settings.
#include "harness.h"
#include "memory/allocator_config.h"

using torch_npu::memory::AllocatorConfig;

TEST(defaults) {
  const auto config = AllocatorConfig::parse("");
  EXPECT_EQ(config.max_split_size, SIZE_MAX);
  EXPECT(!config.expandable_segments && !config.rounds_to_power2());
  EXPECT_EQ(config.garbage_collection_threshold, 0.0);
}

TEST(all_keys) {
  const auto config = AllocatorConfig::parse(
      " max_split_size_mb:100, garbage_collection_threshold:0.8 ,expandable_segments:True,"
      "per_process_memory_fraction:0.5,pinned_use_background_threads:True,max_non_split_rounding_mb:64");
  EXPECT_EQ(config.max_split_size, size_t{100} << 20);
  EXPECT_EQ(config.max_non_split_rounding, size_t{64} << 20);
  EXPECT_EQ(config.garbage_collection_threshold, 0.8);
  EXPECT(config.expandable_segments);
  EXPECT_EQ(config.per_process_memory_fraction, 0.5);
  EXPECT_EQ(config.for_torch, "pinned_use_background_threads:True");
}

TEST(sizes_of_segments) {
  const size_t mib = 1 << 20;
  EXPECT_EQ(AllocatorConfig::parse("").large_segment, 20 * mib);
  const auto large = AllocatorConfig::parse("large_segment_size_mb:51");
  EXPECT_EQ(large.large_segment, 51 * mib);
  EXPECT_EQ(large.expandable_granule, 52 * mib);  // whole pages
  const auto old = AllocatorConfig::parse("expandable_segments:True,segment_size_mb:40");
  EXPECT_EQ(old.large_segment, 20 * mib);
  EXPECT_EQ(old.expandable_granule, 40 * mib);
  EXPECT_EQ(AllocatorConfig::parse("large_segment_size_mb:60,segment_size_mb:40").expandable_granule, 60 * mib);
  EXPECT_THROWS(c10::ValueError, "above 10", AllocatorConfig::parse("large_segment_size_mb:10"));
  EXPECT_THROWS(c10::ValueError, "from 20 to 512", AllocatorConfig::parse("segment_size_mb:513"));
  EXPECT_THROWS(c10::ValueError, "must not be less", AllocatorConfig::parse("max_split_size_mb:30,large_segment_size_mb:50"));
}

TEST(published_keys_without_effect_are_told) {
  EXPECT(AllocatorConfig::parse("pinned_mem_register:False,release_lock_on_npumalloc:True").without_effect.empty());
  const auto config = AllocatorConfig::parse("page_size:1g,base_addr_aligned_kb:16,multi_stream_lazy_reclaim:True");
  for (const char* key : {"page_size", "base_addr_aligned_kb", "multi_stream_lazy_reclaim"}) {
    EXPECT(config.without_effect.find(key) != std::string::npos);
  }
  EXPECT(config.for_torch.empty());
  EXPECT_THROWS(c10::ValueError, "must be 1g", AllocatorConfig::parse("page_size:2m"));
  EXPECT_THROWS(c10::ValueError, "from 0 to 16", AllocatorConfig::parse("base_addr_aligned_kb:17"));
  EXPECT_THROWS(c10::ValueError, "True or False", AllocatorConfig::parse("throw_on_npumalloc_oom:2"));
}

TEST(bad_values_name_the_key) {
  EXPECT_THROWS(c10::ValueError, "unknown key 'max_split'", AllocatorConfig::parse("max_split:3"));
  EXPECT_THROWS(c10::ValueError, "max_split_size_mb is '20'", AllocatorConfig::parse("max_split_size_mb:20"));
  EXPECT_THROWS(c10::ValueError, "max_split_size_mb is 'many'", AllocatorConfig::parse("max_split_size_mb:many"));
  EXPECT_THROWS(c10::ValueError, "True or False", AllocatorConfig::parse("expandable_segments:yes"));
  EXPECT_THROWS(c10::ValueError, "between 0 and 1", AllocatorConfig::parse("garbage_collection_threshold:1.5"));
  EXPECT_THROWS(c10::ValueError, "from 0 to 1", AllocatorConfig::parse("per_process_memory_fraction:-1"));
  EXPECT_THROWS(c10::ValueError, "expected key:value", AllocatorConfig::parse("expandable_segments"));
  EXPECT_THROWS(c10::ValueError, "brackets", AllocatorConfig::parse("roundup_power2_divisions:[256:1"));
  EXPECT_THROWS(c10::ValueError, "power of two", AllocatorConfig::parse("roundup_power2_divisions:3"));
}

TEST(rounding_by_512) {
  const AllocatorConfig config;
  EXPECT_EQ(config.rounded(1), size_t{512});
  EXPECT_EQ(config.rounded(512), size_t{512});
  EXPECT_EQ(config.rounded(513), size_t{1024});
}

TEST(rounding_by_power2_divisions) {
  const auto config = AllocatorConfig::parse("roundup_power2_divisions:4");
  // Between 1024 and 2048 KiB the steps are 256 KiB.
  EXPECT_EQ(config.rounded(1200 << 10), size_t{1280 << 10});
  EXPECT_EQ(config.rounded(1024 << 10), size_t{1024 << 10});
  EXPECT_EQ(config.rounded((1792 << 10) + 1), size_t{2048 << 10});
  // Too small to divide.
  EXPECT_EQ(config.rounded(1000), size_t{1024});
}

TEST(rounding_by_intervals) {
  const auto config = AllocatorConfig::parse("roundup_power2_divisions:[2:1,8:2,>:8]");
  const size_t mib = 1 << 20;
  EXPECT_EQ(config.rounded(2 * mib + 1), 2 * mib + 512);  // up to the 2 MiB interval: 512 bytes
  EXPECT_EQ(config.rounded(4 * mib + 1), 6 * mib);        // halves of 4 MiB
  EXPECT_EQ(config.rounded(9 * mib), 12 * mib);           // halves of 8 MiB
  EXPECT_EQ(config.rounded(17 * mib), 18 * mib);          // eighths of 16 MiB
}
