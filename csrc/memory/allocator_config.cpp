#include "memory/allocator_config.h"

#include <bit>
#include <cmath>
#include <vector>

#include <c10/util/Exception.h>

namespace torch_npu::memory {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

struct Setting {
  std::string key, value;
};

std::string without_spaces(const std::string& text) {
  std::string result;
  for (char c : text) {
    if (!std::isspace(static_cast<unsigned char>(c))) result += c;
  }
  return result;
}

// Cuts at commas outside brackets.
std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (char c : text) {
    depth += (c == '[') - (c == ']');
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  TORCH_CHECK_VALUE(depth == 0, "allocator settings: brackets do not match in '", text, "'");
  return parts;
}

Setting split_setting(const std::string& part) {
  const auto colon = part.find(':');
  TORCH_CHECK_VALUE(colon != std::string::npos && colon > 0 && colon + 1 < part.size(),
                    "allocator settings: expected key:value, got '", part, "'");
  return {part.substr(0, colon), part.substr(colon + 1)};
}

[[noreturn]] void bad_value(const Setting& setting, const char* allowed) {
  TORCH_CHECK_VALUE(false, "allocator settings: ", setting.key, " is '", setting.value, "', but must be ", allowed);
}

size_t parse_size(const Setting& setting, const char* allowed) {
  size_t used = 0;
  unsigned long long value = 0;
  try {
    value = std::stoull(setting.value, &used);
  } catch (const std::exception&) {
    bad_value(setting, allowed);
  }
  if (used != setting.value.size() || setting.value[0] == '-') bad_value(setting, allowed);
  return value;
}

double parse_fraction(const Setting& setting, const char* allowed) {
  size_t used = 0;
  double value = 0;
  try {
    value = std::stod(setting.value, &used);
  } catch (const std::exception&) {
    bad_value(setting, allowed);
  }
  if (used != setting.value.size() || !std::isfinite(value)) bad_value(setting, allowed);
  return value;
}

bool parse_bool(const Setting& setting) {
  if (setting.value == "True" || setting.value == "true" || setting.value == "1") return true;
  if (setting.value == "False" || setting.value == "false" || setting.value == "0") return false;
  bad_value(setting, "True or False");
}

size_t parse_mib(const Setting& setting, size_t least, size_t most, const char* allowed) {
  const size_t mib = parse_size(setting, allowed);
  if (mib < least || mib > most) bad_value(setting, allowed);
  return mib > SIZE_MAX / kMiB ? SIZE_MAX : mib * kMiB;
}

size_t interval_of(size_t bytes) {
  const int power = std::bit_width(bytes) - 1, first = std::bit_width(kMiB) - 1;
  const int index = std::max(0, power - first);
  return std::min<size_t>(static_cast<size_t>(index), AllocatorConfig::kRoundupIntervals - 1);
}

size_t parse_divisions(const Setting& setting) {
  constexpr const char* kAllowed = "a power of two, or a list such as [256:1,512:2,>:4]";
  const size_t value = parse_size(setting, kAllowed);
  if (value != 0 && !std::has_single_bit(value)) bad_value(setting, kAllowed);
  return value;
}

// One number for all sizes, or [upper limit in MiB:divisions, ...,>:divisions]: an entry holds for the
// sizes from the previous entry's limit up to its own, ">" for all beyond.
void parse_roundup(const Setting& setting, AllocatorConfig& config) {
  auto& divisions = config.roundup_divisions;
  if (setting.value.front() != '[') {
    divisions.fill(parse_divisions(setting));
    return;
  }
  size_t next = 0, last = 0;
  for (const auto& part : split_list(setting.value.substr(1, setting.value.size() - 2))) {
    const Setting entry = split_setting(part);
    last = parse_divisions({setting.key, entry.value});
    if (entry.key == ">") {
      next = std::min(next, divisions.size());
      break;
    }
    const size_t limit = parse_size({setting.key, entry.key}, "sizes in MiB that are powers of two");
    if (!std::has_single_bit(limit)) bad_value(setting, "given for sizes in MiB that are powers of two");
    const size_t end = interval_of(limit > SIZE_MAX / kMiB ? SIZE_MAX : limit * kMiB);
    while (next < end) divisions[next++] = last;
    if (next == end && next < divisions.size()) divisions[next++] = last;
  }
  while (next < divisions.size()) divisions[next++] = last;
}

// The published switches that change nothing here, and why.
struct Switch {
  const char* key;
  const char* why;  // nullptr: what it asks for is always so
};
constexpr Switch kSwitches[] = {
    {"multi_stream_lazy_reclaim", "events are asked whenever memory is taken"},
    {"pin_memory_expandable_segments", "pinned memory is PyTorch's allocator's"},
    {"pinned_mem_register", "pinned memory is PyTorch's allocator's"},
    {"throw_on_npumalloc_oom", "cached memory is always freed before an OutOfMemoryError"},
    {"release_lock_on_npumalloc", nullptr},
};

void note_without_effect(AllocatorConfig& config, const Setting& setting, const char* why) {
  config.without_effect += (config.without_effect.empty() ? "" : "; ") + setting.key + " (" + why + ")";
}

// False: not one of the published keys that have no effect.
bool parse_without_effect(const Setting& setting, AllocatorConfig& config) {
  for (const auto& known : kSwitches) {
    if (setting.key != known.key) continue;
    if (parse_bool(setting) && known.why) note_without_effect(config, setting, known.why);
    return true;
  }
  if (setting.key == "base_addr_aligned_kb") {
    constexpr const char* kAllowed = "a whole number from 0 to 16";
    if (parse_size(setting, kAllowed) > 16) bad_value(setting, kAllowed);
    note_without_effect(config, setting, "blocks are aligned to 512 bytes");
    return true;
  }
  if (setting.key == "page_size") {
    if (setting.value != "1g") bad_value(setting, "1g");
    note_without_effect(config, setting, "CANN chooses the size of pages");
    return true;
  }
  return false;
}

}  // namespace

std::unordered_set<std::string> AllocatorConfig::published_keys() {
  std::unordered_set<std::string> keys{"base_addr_aligned_kb", "page_size", "segment_size_mb", "large_segment_size_mb"};
  for (const auto& known : kSwitches) keys.insert(known.key);
  return keys;
}

AllocatorConfig AllocatorConfig::parse(const std::string& text) {
  AllocatorConfig config;
  const std::string compact = without_spaces(text);
  if (compact.empty()) return config;
  size_t large = 0, granule = 0;
  for (const auto& part : split_list(compact)) {
    if (part.empty()) continue;
    const Setting setting = split_setting(part);
    const auto& key = setting.key;
    if (key == "max_split_size_mb") {
      config.max_split_size = parse_mib(setting, kLargeSegment / kMiB + 1, SIZE_MAX, "a whole number of MiB above 20");
    } else if (key == "max_non_split_rounding_mb") {
      config.max_non_split_rounding = parse_mib(setting, kLargeSegment / kMiB + 1, SIZE_MAX, "a whole number of MiB above 20");
    } else if (key == "garbage_collection_threshold") {
      config.garbage_collection_threshold = parse_fraction(setting, "between 0 and 1, both excluded");
      if (config.garbage_collection_threshold <= 0 || config.garbage_collection_threshold >= 1)
        bad_value(setting, "between 0 and 1, both excluded");
    } else if (key == "expandable_segments") {
      config.expandable_segments = parse_bool(setting);
    } else if (key == "per_process_memory_fraction") {
      config.per_process_memory_fraction = parse_fraction(setting, "from 0 to 1");
      if (config.per_process_memory_fraction < 0 || config.per_process_memory_fraction > 1) bad_value(setting, "from 0 to 1");
    } else if (key == "roundup_power2_divisions") {
      parse_roundup(setting, config);
    } else if (key == "large_segment_size_mb") {
      large = parse_mib(setting, 11, SIZE_MAX / kMiB, "a whole number of MiB above 10");
    } else if (key == "segment_size_mb") {
      granule = parse_mib(setting, 20, 512, "a whole number of MiB from 20 to 512");
    } else if (parse_without_effect(setting, config)) {
      continue;
    } else if (key.rfind("pinned_", 0) == 0) {
      config.for_torch += (config.for_torch.empty() ? "" : ",") + part;
    } else {
      TORCH_CHECK_VALUE(false, "allocator settings: unknown key '", key,
                        "'; the keys are max_split_size_mb, max_non_split_rounding_mb, garbage_collection_threshold, "
                        "expandable_segments, large_segment_size_mb, segment_size_mb, per_process_memory_fraction, "
                        "roundup_power2_divisions and PyTorch's pinned_* keys");
    }
  }
  if (large) config.large_segment = large;
  // What is mapped at once is a multiple of a page.
  config.expandable_granule = round_up(large ? large : granule ? granule : kLargeSegment, kSmallSegment);
  TORCH_CHECK_VALUE(config.max_split_size >= config.large_segment,
                    "allocator settings: max_split_size_mb must not be less than large_segment_size_mb");
  return config;
}

bool AllocatorConfig::rounds_to_power2() const {
  for (size_t divisions : roundup_divisions) {
    if (divisions > 1) return true;
  }
  return false;
}

size_t AllocatorConfig::rounded(size_t bytes) const {
  if (bytes <= kMinBlock) return kMinBlock;
  const size_t divisions = roundup_divisions[interval_of(bytes)];
  if (divisions <= 1 || bytes <= kMinBlock * divisions || std::has_single_bit(bytes)) return round_up(bytes, kMinBlock);
  return round_up(bytes, std::bit_floor(bytes) / divisions);
}

}  // namespace torch_npu::memory
