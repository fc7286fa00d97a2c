#include "rt/dump/dump_values.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "rt/base/data_types.h"
#include "rt/base/half.h"

namespace softcann::dump {
namespace {

struct FormatName {
  aclFormat format;
  const char* name;
};
constexpr FormatName kFormats[] = {
    {ACL_FORMAT_ND, "ND"},
    {ACL_FORMAT_NCHW, "NCHW"},
    {ACL_FORMAT_NHWC, "NHWC"},
    {ACL_FORMAT_NC, "NC"},
    {ACL_FORMAT_NCL, "NCL"},
    {ACL_FORMAT_NCDHW, "NCDHW"},
    {ACL_FORMAT_NDHWC, "NDHWC"},
    {ACL_FORMAT_NC1HWC0, "NC1HWC0"},
    {ACL_FORMAT_NDC1HWC0, "NDC1HWC0"},
    {ACL_FORMAT_FRACTAL_Z, "FRACTAL_Z"},
    {ACL_FORMAT_FRACTAL_NZ, "FRACTAL_NZ"},
};

// Null where dumps hold bytes.
const DataType* find(aclDataType type) {
  const DataType* known = find_data_type(type);
  return known != nullptr && known->name != nullptr ? known : nullptr;
}

struct Sums {
  Statistics found;
  double sum = 0, squares = 0;
  uint64_t finite = 0;

  void add(double value) {
    if (std::isnan(value)) {
      ++found.nan;
    } else if (std::isinf(value)) {
      ++found.inf;
    } else {
      found.min = finite == 0 ? value : std::fmin(found.min, value);
      found.max = finite == 0 ? value : std::fmax(found.max, value);
      sum += value;
      squares += value * value;
      ++finite;
    }
  }
  Statistics end() {
    found.known = finite != 0;
    if (finite != 0) found.mean = sum / static_cast<double>(finite);
    found.norm = std::sqrt(squares);
    return found;
  }
};

template <class E, class Convert>
Statistics sum_up(const Tensor& tensor, const Convert& convert) {
  Sums sums;
  const char* data = static_cast<const char*>(tensor.data.get());
  for (size_t at = 0; at + sizeof(E) <= tensor.bytes; at += sizeof(E)) {
    E element;
    std::memcpy(&element, data + at, sizeof(E));
    sums.add(convert(element));
  }
  return sums.end();
}
template <class E>
Statistics sum_up(const Tensor& tensor) {
  return sum_up<E>(tensor, [](E element) { return static_cast<double>(element); });
}

std::string number(bool known, double value) {
  if (!known) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace

Statistics statistics_of(const Tensor& tensor) {
  struct Complex64 {
    float real, imaginary;
  };
  struct Complex128 {
    double real, imaginary;
  };
  switch (tensor.stored) {
    case ACL_FLOAT:
      return sum_up<float>(tensor);
    case ACL_FLOAT16:
      return sum_up<uint16_t>(tensor, [](uint16_t half) { return double{half_to_float(half)}; });
    case ACL_DOUBLE:
      return sum_up<double>(tensor);
    case ACL_INT8:
      return sum_up<int8_t>(tensor);
    case ACL_INT16:
      return sum_up<int16_t>(tensor);
    case ACL_INT32:
      return sum_up<int32_t>(tensor);
    case ACL_INT64:
      return sum_up<int64_t>(tensor);
    case ACL_UINT8:
    case ACL_BOOL:
      return sum_up<uint8_t>(tensor);
    case ACL_UINT16:
      return sum_up<uint16_t>(tensor);
    case ACL_UINT32:
      return sum_up<uint32_t>(tensor);
    case ACL_UINT64:
      return sum_up<uint64_t>(tensor);
    case ACL_COMPLEX64:
      return sum_up<Complex64>(tensor, [](Complex64 z) { return std::hypot(double{z.real}, double{z.imaginary}); });
    case ACL_COMPLEX128:
      return sum_up<Complex128>(tensor, [](Complex128 z) { return std::hypot(z.real, z.imaginary); });
    default:
      return {};
  }
}

std::string text_of(const Statistics& statistics, const std::set<std::string>& chosen) {
  std::string text = "{";
  const auto add = [&](const char* name, const std::string& value) {
    if (!chosen.empty() && chosen.count(name) == 0) return;
    text += (text.size() > 1 ? ",\"" : "\"") + std::string(name) + "\":" + value;
  };
  add("min", number(statistics.known, statistics.min));
  add("max", number(statistics.known, statistics.max));
  add("mean", number(statistics.known, statistics.mean));
  add("norm", number(true, statistics.norm));
  add("nan", std::to_string(statistics.nan));
  add("inf", std::to_string(statistics.inf));
  return text + "}";
}

std::string npy_of(const Tensor& tensor) {
  const DataType* type = find(tensor.stored);
  const bool is_known = type != nullptr && type->numpy != nullptr;  // else bytes
  std::string shape;
  for (const int64_t dim : is_known ? tensor.dims : std::vector<int64_t>{static_cast<int64_t>(tensor.bytes)}) {
    shape += std::to_string(dim) + ",";
  }
  std::string header =
      std::string("{'descr': '") + (is_known ? type->numpy : "|u1") + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr size_t kBefore = 10, kMultiple = 64;
  header.resize((kBefore + header.size() + 1 + kMultiple - 1) / kMultiple * kMultiple - kBefore - 1, ' ');
  header += '\n';
  std::string file = "\x93NUMPY";
  file += '\x01';
  file += '\0';
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  if (tensor.bytes != 0) file.append(static_cast<const char*>(tensor.data.get()), tensor.bytes);
  return file;
}

std::string dtype_name(aclDataType type) {
  const DataType* known = find(type);
  return known != nullptr ? known->name : "acl_" + std::to_string(static_cast<int>(type));
}

const char* format_name(aclFormat format) {
  for (const FormatName& known : kFormats) {
    if (known.format == format) return known.name;
  }
  return "UNDEFINED";
}

Tensor copy_of(std::string name, bool written, aclDataType type, std::vector<int64_t> dims, const void* data, size_t bytes) {
  const DataType* known = find(type);
  const size_t item = known != nullptr ? known->bits / 8 : 1;
  size_t promised = item;
  for (const int64_t dim : dims) promised *= static_cast<size_t>(dim);
  if (promised != bytes) dims = {static_cast<int64_t>(bytes / item)};
  Tensor made;
  made.written = written;
  made.name = std::move(name);
  made.type = made.stored = type;
  made.strides.assign(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) made.strides[i - 1] = made.strides[i] * dims[i];
  made.dims = std::move(dims);
  const bool widens = type == ACL_BF16;
  const size_t elements = bytes / item;
  made.bytes = widens ? elements * sizeof(float) : bytes;
  const std::shared_ptr<char[]> copy(new char[made.bytes]);
  if (!widens) std::memcpy(copy.get(), data, bytes);
  for (size_t i = 0; widens && i < elements; ++i) {
    uint16_t one = 0;
    std::memcpy(&one, static_cast<const char*>(data) + i * sizeof one, sizeof one);
    const float wide = bfloat_to_float(one);
    std::memcpy(copy.get() + i * sizeof wide, &wide, sizeof wide);
  }
  if (widens) made.stored = ACL_FLOAT;
  made.data = std::shared_ptr<const void>(copy, copy.get());
  return made;
}

}  // namespace softcann::dump
