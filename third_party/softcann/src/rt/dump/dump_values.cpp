#include "rt/dump/dump_values.h"

#include <cmath>
#include <cstring>

#include "rt/base/half.h"

namespace softcann::dump {
namespace {

struct Type {
  aclDataType type;
  const char* name;
  const char* numpy;  // null: NumPy has none
};
constexpr Type kTypes[] = {
    {ACL_FLOAT, "float32", "<f4"},
    {ACL_FLOAT16, "float16", "<f2"},
    {ACL_DOUBLE, "float64", "<f8"},
    {ACL_BF16, "bfloat16", nullptr},
    {ACL_INT8, "int8", "|i1"},
    {ACL_INT16, "int16", "<i2"},
    {ACL_INT32, "int32", "<i4"},
    {ACL_INT64, "int64", "<i8"},
    {ACL_UINT8, "uint8", "|u1"},
    {ACL_UINT16, "uint16", "<u2"},
    {ACL_UINT32, "uint32", "<u4"},
    {ACL_UINT64, "uint64", "<u8"},
    {ACL_BOOL, "bool", "|b1"},
    {ACL_COMPLEX64, "complex64", "<c8"},
    {ACL_COMPLEX128, "complex128", "<c16"},
    {ACL_COMPLEX32, "complex32", nullptr},
    {ACL_FLOAT8_E4M3FN, "float8_e4m3fn", nullptr},
    {ACL_FLOAT8_E5M2, "float8_e5m2", nullptr},
};

const Type* find(aclDataType type) {
  for (const Type& known : kTypes) {
    if (known.type == type) return &known;
  }
  return nullptr;
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
  const Type* type = find(tensor.stored);
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
  const Type* known = find(type);
  return known != nullptr ? known->name : "acl_" + std::to_string(static_cast<int>(type));
}

}  // namespace softcann::dump
