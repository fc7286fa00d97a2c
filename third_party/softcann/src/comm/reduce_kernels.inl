// The loops of reduce.cpp, compiled once for each instruction set inside a namespace of that name.

// Blocks stay in the first-level cache while they are summed up and given to all targets.
inline constexpr uint64_t kBlock = 1024;

template <HcclReduceOp Op, class T>
inline T apply(T a, T b) {
  if constexpr (Op == HCCL_REDUCE_MAX) return a > b || a != a ? a : b;
  if constexpr (Op == HCCL_REDUCE_MIN) return a < b || a != a ? a : b;
  using U = typename Wrapping<T>::type;
  if constexpr (Op == HCCL_REDUCE_SUM) return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
}

// out may be a or b.
template <HcclReduceOp Op, class T>
void combine(T* out, const T* a, const T* b, uint64_t count) {
#pragma GCC ivdep
  for (uint64_t i = 0; i < count; ++i) out[i] = apply<Op>(a[i], b[i]);
}

// The commonest case, two ranks that both want the result, without a second pass. The outputs may be the inputs.
template <HcclReduceOp Op, class T>
void combine_for_both(T* first, T* second, const T* a, const T* b, uint64_t count) {
#pragma GCC ivdep
  for (uint64_t i = 0; i < count; ++i) first[i] = second[i] = apply<Op>(a[i], b[i]);
}

inline void widen(const Bfloat* from, float* to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) to[i] = bfloat_to_float(from[i].bits);
}
inline void narrow(const float* from, Bfloat* to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) to[i].bits = float_to_bfloat(from[i]);
}
inline void widen(const Half* from, float* to, uint64_t count) {
  uint64_t i = 0;
#ifdef SOFTCANN_F16C
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
#endif
  for (; i < count; ++i) to[i] = half_to_float(from[i].bits);
}
inline void narrow(const float* from, Half* to, uint64_t count) {
  uint64_t i = 0;
#ifdef SOFTCANN_F16C
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0));
  }
#endif
  for (; i < count; ++i) to[i].bits = float_to_half(from[i]);
}

template <class T>
inline constexpr bool kWide = !std::is_same_v<T, Half> && !std::is_same_v<T, Bfloat>;

// One block, all sources, into `out`.
template <HcclReduceOp Op, class T>
void reduce_block(T* out, const T* const* from, uint32_t sources, uint64_t count) {
  if constexpr (kWide<T>) {
    if (sources == 2) return combine<Op>(out, from[0], from[1], count);
    // `out` may be one of the sources that are still to be read, hence the sum elsewhere.
    alignas(64) T sum[kBlock];
    combine<Op>(sum, from[0], from[1], count);
    for (uint32_t k = 2; k + 1 < sources; ++k) combine<Op>(sum, sum, from[k], count);
    combine<Op>(out, sum, from[sources - 1], count);
  } else {
    alignas(64) float sum[kBlock];
    alignas(64) float next[kBlock];
    widen(from[0], sum, count);
    for (uint32_t k = 1; k < sources; ++k) {
      widen(from[k], next, count);
      combine<Op>(sum, sum, next, count);
    }
    narrow(sum, out, count);
  }
}

template <HcclReduceOp Op, class T>
void reduce_all(const char* const* from, uint32_t sources, char* const* to, uint32_t targets, uint64_t count) {
  const T* at[kMaxRanks];
  const bool bulk = is_bulk(from, sources, to, targets, count * sizeof(T));
  if constexpr (kWide<T>) {
    if (sources == 2 && targets == 2 && !bulk) {
      return combine_for_both<Op>(reinterpret_cast<T*>(to[0]), reinterpret_cast<T*>(to[1]),
          reinterpret_cast<const T*>(from[0]), reinterpret_cast<const T*>(from[1]), count);
    }
  }
  for (uint64_t first = 0; first < count; first += kBlock) {
    const uint64_t length = std::min(kBlock, count - first);
    for (uint32_t k = 0; k < sources; ++k) at[k] = reinterpret_cast<const T*>(from[k]) + first;
    if (bulk) {
      alignas(64) T block[kBlock];
      for (uint32_t k = 0; k < sources; ++k) {
        for (size_t line = 0; line < sizeof block; line += kCacheLine) __builtin_prefetch(reinterpret_cast<const char*>(at[k] + length) + line);
      }
      reduce_block<Op>(block, at, sources, length);
      for (uint32_t j = 0; j < targets; ++j) stream_bytes(reinterpret_cast<T*>(to[j]) + first, block, length * sizeof(T));
      continue;
    }
    T* out = reinterpret_cast<T*>(to[0]) + first;
    reduce_block<Op>(out, at, sources, length);
    for (uint32_t j = 1; j < targets; ++j) std::memcpy(reinterpret_cast<T*>(to[j]) + first, out, length * sizeof(T));
  }
}

template <class T>
Kernel kernel_of(HcclReduceOp op) {
  switch (op) {
    case HCCL_REDUCE_SUM: return reduce_all<HCCL_REDUCE_SUM, T>;
    case HCCL_REDUCE_PROD: return reduce_all<HCCL_REDUCE_PROD, T>;
    case HCCL_REDUCE_MAX: return reduce_all<HCCL_REDUCE_MAX, T>;
    case HCCL_REDUCE_MIN: return reduce_all<HCCL_REDUCE_MIN, T>;
    default: return nullptr;
  }
}

inline Kernel find_kernel(HcclDataType type, HcclReduceOp op) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8: return kernel_of<int8_t>(op);
    case HCCL_DATA_TYPE_UINT8: return kernel_of<uint8_t>(op);
    case HCCL_DATA_TYPE_INT16: return kernel_of<int16_t>(op);
    case HCCL_DATA_TYPE_UINT16: return kernel_of<uint16_t>(op);
    case HCCL_DATA_TYPE_INT32: return kernel_of<int32_t>(op);
    case HCCL_DATA_TYPE_UINT32: return kernel_of<uint32_t>(op);
    case HCCL_DATA_TYPE_INT64: return kernel_of<int64_t>(op);
    case HCCL_DATA_TYPE_UINT64: return kernel_of<uint64_t>(op);
    case HCCL_DATA_TYPE_INT128: return kernel_of<Int128>(op);
    case HCCL_DATA_TYPE_FP16: return kernel_of<Half>(op);
    case HCCL_DATA_TYPE_BFP16: return kernel_of<Bfloat>(op);
    case HCCL_DATA_TYPE_FP32: return kernel_of<float>(op);
    case HCCL_DATA_TYPE_FP64: return kernel_of<double>(op);
    default: return nullptr;
  }
}
