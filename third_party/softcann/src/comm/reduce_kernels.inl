// The loops of reduce.cpp, compiled once for each instruction set inside a namespace of that name.

// What is summed up at once before all targets get it: a few lines, and a constant, so that loops have no rest.
inline constexpr uint64_t kLines = 4;
template <class T>
inline constexpr uint64_t kBlock = kLines * kLineBytes / sizeof(T);

// Asks for the block that comes later by so much: see Note [Fetching ahead].
inline void fetch_ahead(const void* block) {
  for (uint64_t line = 0; line < kLines; ++line)
    __builtin_prefetch(static_cast<const char*>(block) + kAheadBytes + line * kLineBytes);
}

// A block past the cache, to the start of a line. By vectors as wide as those that computed it: a wider one would wait for two.
[[gnu::always_inline]] inline void stream_block(void* to, const void* block) {
#ifdef SOFTCANN_AVX2
  for (uint64_t i = 0; i < kLines * kLineBytes / sizeof(__m256i); ++i) {
    _mm256_stream_si256(static_cast<__m256i*>(to) + i, _mm256_load_si256(static_cast<const __m256i*>(block) + i));
  }
#else
  std::memcpy(to, block, kLines * kLineBytes);
#endif
}
inline void end_stream() {
#ifdef SOFTCANN_AVX2
  _mm_sfence();
#endif
}

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
[[gnu::always_inline]] inline void combine(T* out, const T* a, const T* b, uint64_t count) {
#pragma GCC ivdep
  for (uint64_t i = 0; i < count; ++i) out[i] = apply<Op>(a[i], b[i]);
}

// The commonest case, two ranks that both want the result, without a second pass. The outputs may be the inputs.
template <HcclReduceOp Op, class T>
[[gnu::always_inline]] inline void combine_for_both(T* first, T* second, const T* a, const T* b, uint64_t count) {
#pragma GCC ivdep
  for (uint64_t i = 0; i < count; ++i) first[i] = second[i] = apply<Op>(a[i], b[i]);
}

[[gnu::always_inline]] inline void widen(const Bfloat* from, float* to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) to[i] = bfloat_to_float(from[i].bits);
}
[[gnu::always_inline]] inline void narrow(const float* from, Bfloat* to, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) to[i].bits = float_to_bfloat(from[i]);
}
[[gnu::always_inline]] inline void widen(const Half* from, float* to, uint64_t count) {
  uint64_t i = 0;
#ifdef SOFTCANN_AVX2
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
#endif
  for (; i < count; ++i) to[i] = half_to_float(from[i].bits);
}
[[gnu::always_inline]] inline void narrow(const float* from, Half* to, uint64_t count) {
  uint64_t i = 0;
#ifdef SOFTCANN_AVX2
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), 0));
  }
#endif
  for (; i < count; ++i) to[i].bits = float_to_half(from[i]);
}

template <class T>
inline constexpr bool kWide = !std::is_same_v<T, Half> && !std::is_same_v<T, Bfloat>;

// One block, all sources, into `out`, which is none of them.
template <HcclReduceOp Op, class T>
[[gnu::always_inline]] inline void reduce_block(T* out, const T* const* from, uint32_t sources, uint64_t count) {
  if constexpr (kWide<T>) {
    combine<Op>(out, from[0], from[1], count);
    for (uint32_t k = 2; k < sources; ++k) combine<Op>(out, out, from[k], count);
  } else {
    alignas(64) float sum[kBlock<T>];
    alignas(64) float next[kBlock<T>];
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
  constexpr uint64_t length = kBlock<T>;
  const bool bulk = is_bulk(from, sources, to, targets, count * sizeof(T)),
             both = kWide<T> && sources == 2 && targets == 2 && !bulk;
  const T* at[kMaxRanks];
  const auto target = [&](uint32_t j, uint64_t first) { return reinterpret_cast<T*>(to[j]) + first; };
  uint64_t first = 0;
  for (; first + length <= count; first += length) {
    for (uint32_t k = 0; k < sources; ++k) {
      at[k] = reinterpret_cast<const T*>(from[k]) + first;
      fetch_ahead(at[k]);
    }
    if constexpr (kWide<T>) {
      if (both) {
        combine_for_both<Op>(target(0, first), target(1, first), at[0], at[1], length);
        continue;
      }
    }
    alignas(kLineBytes) T block[length];
    reduce_block<Op>(block, at, sources, length);
    for (uint32_t j = 0; j < targets; ++j) {
      bulk ? stream_block(target(j, first), block) : static_cast<void>(std::memcpy(target(j, first), block, sizeof block));
    }
  }
  if (bulk) end_stream();
  if (first == count) return;
  for (uint32_t k = 0; k < sources; ++k) at[k] = reinterpret_cast<const T*>(from[k]) + first;
  T rest[length];
  reduce_block<Op>(rest, at, sources, count - first);
  for (uint32_t j = 0; j < targets; ++j) std::memcpy(target(j, first), rest, (count - first) * sizeof(T));
}

template <class T>
Kernel kernel_of(HcclReduceOp op) {
  switch (op) {
    case HCCL_REDUCE_SUM:
      return reduce_all<HCCL_REDUCE_SUM, T>;
    case HCCL_REDUCE_PROD:
      return reduce_all<HCCL_REDUCE_PROD, T>;
    case HCCL_REDUCE_MAX:
      return reduce_all<HCCL_REDUCE_MAX, T>;
    case HCCL_REDUCE_MIN:
      return reduce_all<HCCL_REDUCE_MIN, T>;
    default:
      return nullptr;
  }
}

inline Kernel find_kernel(HcclDataType type, HcclReduceOp op) {
  switch (type) {
    case HCCL_DATA_TYPE_INT8:
      return kernel_of<int8_t>(op);
    case HCCL_DATA_TYPE_UINT8:
      return kernel_of<uint8_t>(op);
    case HCCL_DATA_TYPE_INT16:
      return kernel_of<int16_t>(op);
    case HCCL_DATA_TYPE_UINT16:
      return kernel_of<uint16_t>(op);
    case HCCL_DATA_TYPE_INT32:
      return kernel_of<int32_t>(op);
    case HCCL_DATA_TYPE_UINT32:
      return kernel_of<uint32_t>(op);
    case HCCL_DATA_TYPE_INT64:
      return kernel_of<int64_t>(op);
    case HCCL_DATA_TYPE_UINT64:
      return kernel_of<uint64_t>(op);
    case HCCL_DATA_TYPE_INT128:
      return kernel_of<Int128>(op);
    case HCCL_DATA_TYPE_FP16:
      return kernel_of<Half>(op);
    case HCCL_DATA_TYPE_BFP16:
      return kernel_of<Bfloat>(op);
    case HCCL_DATA_TYPE_FP32:
      return kernel_of<float>(op);
    case HCCL_DATA_TYPE_FP64:
      return kernel_of<double>(op);
    default:
      return nullptr;
  }
}
