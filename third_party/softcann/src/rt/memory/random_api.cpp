// Random numbers of a stream's task: Philox4x32-10, the seed its key, the counter where its blocks begin.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>
#include <type_traits>

#include "rt/base/small_floats.h"
#include "rt/memory/check.h"
#include "rt/stream/stream.h"

using namespace softcann;

namespace {

using Block = std::array<uint32_t, 4>;

class Philox {
 public:
  Philox(uint64_t seed, const Block& counter)
      : counter_(counter), key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)} {}

  uint32_t word() {
    if (used_ == block_.size()) {
      block_ = next_block();
      used_ = 0;
    }
    return block_[used_++];
  }
  uint64_t long_word() {
    const uint64_t low = word();
    return low | uint64_t{word()} << 32;
  }
  // In [0, 1), and never 0 where `positive`: then in (0, 1].
  double unit(bool positive = false) { return static_cast<double>((long_word() >> 11) + (positive ? 1 : 0)) * 0x1p-53; }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(unit(true)));
    return radius * std::cos(2 * std::numbers::pi * unit());
  }

 private:
  Block next_block() {
    Block x = counter_;
    uint32_t a = key_[0], b = key_[1];
    for (int round = 0; round < 10; ++round, a += 0x9E3779B9, b += 0xBB67AE85) {
      const uint64_t p = uint64_t{0xD2511F53} * x[0], q = uint64_t{0xCD9E8D57} * x[2];
      x = {static_cast<uint32_t>(q >> 32) ^ x[1] ^ a, static_cast<uint32_t>(q), static_cast<uint32_t>(p >> 32) ^ x[3] ^ b,
           static_cast<uint32_t>(p)};
    }
    for (uint32_t& part : counter_) {
      if (++part != 0) break;
    }
    return x;
  }

  Block counter_, block_{};
  std::array<uint32_t, 2> key_;
  size_t used_ = block_.size();
};

// A parameter: where its bytes are when the task runs.
struct Parameter {
  std::array<uint8_t, 8> bytes{};
  const void* address = nullptr;  // null: they are here

  template <class T>
  T as() const {
    T value{};
    std::memcpy(&value, address != nullptr ? address : bytes.data(), sizeof value);
    return value;
  }
};

struct RandomTask : Task {
  aclrtRandomNumFuncType kind;
  size_t element;
  Parameter first, second, seed, count;
  void* result;
  size_t room;  // bytes of the result that are known to be there
  const void* counter;
  aclError (*work)(const RandomTask*, Philox*, uint64_t);
};

template <class T>
T from_double(double value) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(value);
  } else {
    return T::of(static_cast<float>(value));
  }
}

// From `low` up to, and not with, `high`.
template <class T>
T uniform(Philox* numbers, T low, T high) {
  if constexpr (std::is_integral_v<T>) {
    using Bits = std::make_unsigned_t<T>;
    const auto span = static_cast<Bits>(static_cast<Bits>(high) - static_cast<Bits>(low));
    const auto drawn = static_cast<Bits>((static_cast<unsigned __int128>(numbers->long_word()) * span) >> 64);
    return static_cast<T>(static_cast<Bits>(low) + drawn);
  } else {
    const double from = static_cast<double>(low), to = static_cast<double>(high);
    for (;;) {
      const T drawn = from_double<T>(from + (to - from) * numbers->unit());
      if (static_cast<double>(drawn) < to) return drawn;  // rounding may have made it `high`
    }
  }
}

// Whether numbers from `low` up to `high` can be drawn.
template <class T>
bool is_range(T low, T high) {
  if constexpr (std::is_integral_v<T>) {
    return low < high;
  } else {
    return std::isfinite(static_cast<double>(low)) && std::isfinite(static_cast<double>(high)) &&
           static_cast<double>(low) < static_cast<double>(high);
  }
}

template <class T>
aclError draw(const RandomTask* task, Philox* numbers, uint64_t count) {
  const T first = task->first.as<T>(), second = task->second.as<T>();
  if (task->kind == ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS && !is_range(first, second)) {
    task_error("aclrtRandomNumAsync: the minimum is not less than the maximum, or one of them is not finite");
    return kRefused;
  }
  auto* to = static_cast<char*>(task->result);
  for (uint64_t i = 0; i < count; ++i) {
    T drawn{};
    if (task->kind == ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS) {
      drawn = uniform(numbers, first, second);
    } else if constexpr (!std::is_integral_v<T>) {
      double deviation = numbers->normal();
      // A truncated one has nothing beyond two standard deviations.
      while (task->kind == ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS && std::abs(deviation) > 2) {
        deviation = numbers->normal();
      }
      drawn = from_double<T>(static_cast<double>(first) + deviation * static_cast<double>(second));
    }
    std::memcpy(to + i * sizeof(T), &drawn, sizeof drawn);
  }
  return ACL_SUCCESS;
}

// One bit for each number, the lowest first: 1 keeps. The bits after the last are 0.
template <class T>
aclError draw_mask(const RandomTask* task, Philox* numbers, uint64_t count) {
  const double dropped = static_cast<double>(task->first.as<T>());
  if (!(dropped >= 0 && dropped <= 1)) {
    task_error("aclrtRandomNumAsync: %g is no share to drop", dropped);
    return kRefused;
  }
  auto* to = static_cast<uint8_t*>(task->result);
  std::memset(to, 0, (count + 7) / 8);
  for (uint64_t i = 0; i < count; ++i) {
    if (numbers->unit() >= dropped) to[i / 8] = static_cast<uint8_t>(to[i / 8] | 1U << i % 8);
  }
  return ACL_SUCCESS;
}

aclError random_numbers(Task* self, bool skip) {
  const auto* task = static_cast<const RandomTask*>(self);
  if (skip) return ACL_SUCCESS;
  const auto count = task->count.as<uint64_t>();
  const bool mask = task->kind == ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK;
  if (mask ? count > uint64_t{task->room} * 8 : count > task->room / task->element) {
    task_error("aclrtRandomNumAsync: %llu numbers are more than the %zu bytes of the result hold",
               static_cast<unsigned long long>(count), task->room);
    return kRefused;
  }
  Block counter;
  std::memcpy(&counter, task->counter, sizeof counter);
  Philox numbers(task->seed.as<uint64_t>(), counter);
  if (check::on(check::kInit)) check::mark_written(task->result, mask ? (count + 7) / 8 : count * task->element);
  return task->work(task, &numbers, count);
}

struct Type {
  size_t bytes;
  bool whole;
  aclError (*numbers)(const RandomTask*, Philox*, uint64_t);
  aclError (*mask)(const RandomTask*, Philox*, uint64_t);
};

template <class T>
Type type_as() {
  return {sizeof(T), std::is_integral_v<T>, &draw<T>, std::is_integral_v<T> ? nullptr : &draw_mask<T>};
}

Type type_of(aclDataType type) {
  switch (type) {
    case ACL_INT32:
      return type_as<int32_t>();
    case ACL_INT64:
      return type_as<int64_t>();
    case ACL_UINT32:
      return type_as<uint32_t>();
    case ACL_UINT64:
      return type_as<uint64_t>();
    case ACL_BF16:
      return type_as<BFloat>();
    case ACL_FLOAT16:
      return type_as<Half>();
    case ACL_FLOAT:
      return type_as<float>();
    default:
      return {};
  }
}

aclError read_parameter(const char* what, const aclrtRandomParaInfo& info, size_t bytes, Parameter* out) {
  if (info.isAddr > 1 || (info.isAddr == 0 && info.size != bytes)) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtRandomNumAsync: %s has isAddr %u and %u bytes; %zu bytes are expected", what,
                info.isAddr, info.size, bytes);
  }
  std::memcpy(out->bytes.data(), info.valueOrAddr, out->bytes.size());
  if (info.isAddr == 0) return ACL_SUCCESS;
  const void* address = nullptr;
  std::memcpy(&address, info.valueOrAddr, sizeof address);
  if (address == nullptr) return fail(ACL_ERROR_INVALID_PARAM, "aclrtRandomNumAsync: the address of %s is null", what);
  if (const aclError code = check_device_range(address, bytes)) return code;
  out->address = device_view(address);
  return ACL_SUCCESS;
}

aclError read_parameters(const aclrtRandomNumTaskInfo& info, const Type& type, RandomTask* task) {
  const auto& function = info.randomNumFuncParaInfo;
  const auto& parameters = function.paramInfo;
  task->kind = function.funcType;
  task->work = type.numbers;
  switch (function.funcType) {
    case ACL_RT_RANDOM_NUM_FUNC_TYPE_DROPOUT_BITMASK:
      task->work = type.mask;
      return read_parameter("dropoutRation", parameters.dropoutBitmaskInfo.dropoutRation, type.bytes, &task->first);
    case ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS:
      if (const aclError code = read_parameter("min", parameters.uniformDisInfo.min, type.bytes, &task->first)) return code;
      return read_parameter("max", parameters.uniformDisInfo.max, type.bytes, &task->second);
    case ACL_RT_RANDOM_NUM_FUNC_TYPE_NORMAL_DIS:
    case ACL_RT_RANDOM_NUM_FUNC_TYPE_TRUNCATED_NORMAL_DIS:
      if (const aclError code = read_parameter("mean", parameters.normalDisInfo.mean, type.bytes, &task->first)) return code;
      return read_parameter("stddev", parameters.normalDisInfo.stddev, type.bytes, &task->second);
  }
  return fail(ACL_ERROR_INVALID_PARAM, "aclrtRandomNumAsync: function %d is not known", static_cast<int>(function.funcType));
}

}  // namespace

extern "C" {

aclError aclrtRandomNumAsync(const aclrtRandomNumTaskInfo* taskInfo, aclrtStream stream, void* reserve) {
  SOFTCANN_ENTRY(aclrtRandomNumAsync);
  SOFTCANN_REQUIRE(taskInfo, "taskInfo");
  SOFTCANN_REQUIRE(taskInfo->randomResultAddr, "randomResultAddr");
  SOFTCANN_REQUIRE(taskInfo->randomCounterAddr, "randomCounterAddr");
  STREAM_OR_RETURN(s, stream);
  if (reserve != nullptr) return fail(ACL_ERROR_INVALID_PARAM, "aclrtRandomNumAsync: reserve is not null");
  const Type type = type_of(taskInfo->dataType);
  const bool uniform = taskInfo->randomNumFuncParaInfo.funcType == ACL_RT_RANDOM_NUM_FUNC_TYPE_UNIFORM_DIS;
  if (type.bytes == 0 || (type.whole && !uniform)) {
    return fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtRandomNumAsync: function %d of data type %d",
                static_cast<int>(taskInfo->randomNumFuncParaInfo.funcType), static_cast<int>(taskInfo->dataType));
  }
  if (const aclError code = check_device_range(taskInfo->randomCounterAddr, sizeof(Block))) return code;
  uintptr_t begin = 0;
  size_t size = 0;
  if (const aclError code = check_device_range(taskInfo->randomResultAddr, 1)) return code;
  if (!live_memory(taskInfo->randomResultAddr, 1, &begin, &size)) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtRandomNumAsync: randomResultAddr %p is not in one piece of memory",
                taskInfo->randomResultAddr);
  }
  auto task = std::make_unique<RandomTask>();
  task->name = "aclrtRandomNumAsync";
  if (const aclError code = read_parameters(*taskInfo, type, task.get())) return code;
  if (const aclError code = read_parameter("randomSeed", taskInfo->randomSeed, 8, &task->seed)) return code;
  if (const aclError code = read_parameter("randomNum", taskInfo->randomNum, 8, &task->count)) return code;
  task->element = type.bytes;
  task->result = device_view(taskInfo->randomResultAddr);
  task->room = size - (reinterpret_cast<uintptr_t>(taskInfo->randomResultAddr) - begin);
  task->counter = device_view(taskInfo->randomCounterAddr);
  task->repeat = &random_numbers;
  task->discard = [](Task* self) {
    if (check::on(check::kMemory)) check::forget_accesses(self);
    delete static_cast<RandomTask*>(self);
  };
  task->run = &run_once;
  if (check::on(check::kMemory)) {
    check::note_access(static_cast<Task*>(task.get()), task->name, taskInfo->randomResultAddr, 1);
    check::note_access(static_cast<Task*>(task.get()), task->name, taskInfo->randomCounterAddr, sizeof(Block));
  }
  s->submit(task.release(), kNeverInline);
  return ACL_SUCCESS;
}
}
