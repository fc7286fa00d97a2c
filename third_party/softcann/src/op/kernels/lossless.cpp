// Lossless compression of floating point tensors: the bytes with the exponents are few different ones, and take few bits.
//
// Note [Compressed tensors]
// CANN does not publish the format, so this one is its own; the decoder reads what the encoder here wrote. `fixed` and behind it
// `var` hold one stream: a header of 512 bytes (bytes of the planes and number of chunks, 64 bits each), a byte for each chunk
// with the number of its planes, then the planes. A chunk is 64 numbers; an exponent's byte is numbered by how frequent it is in
// `pdf`, and plane p is 8 bytes with bit p of each number. `mantissa` has all other bytes as they are.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>

#include "op/kernel.h"
#include "op/kernels/common.h"

using namespace softcann::op;

namespace {

constexpr int64_t header_bytes = 512, chunk_size = 64, plane_bytes = chunk_size / 8;
using Numbering = std::array<uint8_t, 256>;

uint8_t* bytes_of(const at::Tensor& tensor, const char* name) {
  TORCH_CHECK(tensor.is_contiguous(), "Hans: ", name, " must be contiguous");
  return static_cast<uint8_t*>(tensor.data_ptr());
}
int64_t size_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

// The bytes by how often they occur.
Numbering by_frequency(const at::Tensor& pdf) {
  TORCH_CHECK(pdf.numel() == 256 && pdf.scalar_type() == at::kInt, "Hans: pdf is not int32 [1, 256]");
  const at::Tensor counts = pdf.contiguous();
  const auto* count = counts.const_data_ptr<int32_t>();
  Numbering order{};
  std::iota(order.begin(), order.end(), uint8_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint8_t a, uint8_t b) { return count[a] > count[b]; });
  return order;
}

// `fixed` and `var` as one.
struct Stream {
  uint8_t *fixed, *var;
  int64_t fixed_size, size;

  Stream(const at::Tensor& first, const at::Tensor& second)
      : fixed(bytes_of(first, "fixed")),
        var(bytes_of(second, "var")),
        fixed_size(size_of(first)),
        size(fixed_size + size_of(second)) {}
  uint8_t& operator[](int64_t place) const { return place < fixed_size ? fixed[place] : var[place - fixed_size]; }
  void put_number(int64_t place, int64_t number) const {
    for (int i = 0; i < 8; ++i) (*this)[place + i] = static_cast<uint8_t>(static_cast<uint64_t>(number) >> (8 * i));
  }
  int64_t number(int64_t place) const {
    uint64_t found = 0;
    for (int i = 0; i < 8; ++i) found |= static_cast<uint64_t>((*this)[place + i]) << (8 * i);
    return static_cast<int64_t>(found);
  }
};

// Moves all bytes but the last of each element.
void copy_rest(const uint8_t* from, int64_t from_step, uint8_t* to, int64_t to_step, int64_t count) {
  const auto width = static_cast<size_t>(std::min(from_step, to_step));
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * to_step, from + i * from_step, width);
}

void require_elements(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  TORCH_CHECK(type == at::kFloat || type == at::kHalf || type == at::kBFloat16, "Hans: ", type,
              " is not supported; float32, float16 and bfloat16 are");
  TORCH_CHECK(tensor.numel() != 0 && tensor.numel() % chunk_size == 0, "Hans: ", tensor.numel(),
              " elements are not a multiple of 64");
}

}  // namespace

OP(aclnnHansEncode) {
  require_elements(inputTensor);
  const at::Tensor input = inputTensor.contiguous();
  const int64_t count = input.numel(), item = static_cast<int64_t>(input.itemsize()), chunks = count / chunk_size;
  const auto* from = static_cast<const uint8_t*>(input.const_data_ptr());
  TORCH_CHECK(size_of(mantissaOut) == count * (item - 1), "aclnnHansEncode: mantissa has ", size_of(mantissaOut), " bytes, not ",
              count * (item - 1));
  copy_rest(from, item, bytes_of(mantissaOut, "mantissa"), item - 1, count);
  const auto exponent = [&](int64_t i) { return from[i * item + item - 1]; };
  if (statistic) {
    std::array<int32_t, 256> counts{};
    for (int64_t i = 0; i < count; ++i) ++counts[exponent(i)];
    TORCH_CHECK(pdfRef.numel() == 256 && pdfRef.scalar_type() == at::kInt, "aclnnHansEncode: pdf is not int32 [1, 256]");
    put(pdfRef, at::from_blob(counts.data(), {256}, at::kInt).view(pdfRef.sizes()));
  }
  const Numbering order = by_frequency(pdfRef);
  Numbering number{};
  for (size_t i = 0; i < order.size(); ++i) number[order[i]] = static_cast<uint8_t>(i);
  const Stream stream(fixedOut, varOut);
  std::vector<uint8_t> widths(static_cast<size_t>(chunks));
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    uint8_t all = 0;
    for (int64_t i = 0; i < chunk_size; ++i) all |= number[exponent(chunk * chunk_size + i)];
    widths[static_cast<size_t>(chunk)] = static_cast<uint8_t>(std::bit_width(all));
  }
  const int64_t total = plane_bytes * std::accumulate(widths.begin(), widths.end(), int64_t{0});
  const int64_t before = header_bytes + chunks;
  TORCH_CHECK(stream.fixed_size >= before && stream.size >= before + total, "aclnnHansEncode: fixed has ", stream.fixed_size,
              " bytes and var ", stream.size - stream.fixed_size, "; needed are ", before, " for fixed and ", before + total,
              " for both");
  for (int64_t i = 0; i < stream.size; ++i) stream[i] = 0;
  stream.put_number(0, total), stream.put_number(8, chunks);
  int64_t place = before;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const uint8_t width = widths[static_cast<size_t>(chunk)];
    stream[header_bytes + chunk] = width;
    for (int64_t i = 0; i < chunk_size; ++i) {
      const uint8_t code = number[exponent(chunk * chunk_size + i)];
      for (int plane = 0; plane < width; ++plane) {
        stream[place + plane * plane_bytes + i / 8] |= static_cast<uint8_t>((code >> plane & 1) << (i % 8));
      }
    }
    place += width * plane_bytes;
  }
}

OP(aclnnHansDecode) {
  require_elements(out);
  const int64_t count = out.numel(), item = static_cast<int64_t>(out.itemsize()), chunks = count / chunk_size;
  const Stream stream(fixed, var);
  TORCH_CHECK(stream.size >= header_bytes && stream.number(8) == chunks, "aclnnHansDecode: out has ", count,
              " elements, the compressed tensor another number");
  TORCH_CHECK(stream.size >= header_bytes + chunks + stream.number(0) && size_of(mantissa) == count * (item - 1),
              "aclnnHansDecode: the parts do not belong together");
  auto* to = bytes_of(out, "out");
  copy_rest(bytes_of(mantissa, "mantissa"), item - 1, to, item, count);
  const Numbering order = by_frequency(pdf);
  int64_t place = header_bytes + chunks;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t width = stream[header_bytes + chunk];
    TORCH_CHECK(width <= 8 && place + width * plane_bytes <= stream.size, "aclnnHansDecode: the stream is damaged");
    for (int64_t i = 0; i < chunk_size; ++i) {
      uint8_t code = 0;
      for (int64_t plane = 0; plane < width; ++plane) {
        code |= static_cast<uint8_t>((stream[place + plane * plane_bytes + i / 8] >> (i % 8) & 1) << plane);
      }
      to[(chunk * chunk_size + i) * item + item - 1] = order[code];
    }
    place += width * plane_bytes;
  }
}
