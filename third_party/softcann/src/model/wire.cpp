#include "model/wire.h"

#include <cstdarg>
#include <cstdio>

namespace softcann::model {

void damaged(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  throw Error(ErrorKind::corrupt, text);
}

std::string readable(std::string text) {
  // Bytes of the character that begins with `first`; 0 when none does.
  const auto length_of = [](uint8_t first) -> size_t {
    if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
    return first >= 0xc2 && first < 0xe0 ? 2 : first >= 0xe0 && first < 0xf0 ? 3 : 0;
  };
  for (size_t i = 0; i < text.size();) {
    size_t length = length_of(static_cast<uint8_t>(text[i]));
    for (size_t k = 1; k < length; ++k) {
      if (i + k >= text.size() || (static_cast<uint8_t>(text[i + k]) & 0xc0) != 0x80) length = 0;
    }
    const auto second = length == 3 ? static_cast<uint8_t>(text[i + 1]) : 0;
    const auto first = static_cast<uint8_t>(text[i]);
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0)) length = 0;  // too long, or half a character
    if (length == 0) text[i] = '?';
    i += length == 0 ? 1 : length;
  }
  return text;
}

uint64_t Wire::take_varint(std::string_view& from) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (from.empty()) damaged("a number ends in the middle");
    const auto byte = static_cast<uint8_t>(from.front());
    from.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  damaged("a number has more than ten bytes");
}

std::string_view Wire::take(size_t count) {
  if (count > rest_.size()) damaged("field %u has %zu bytes, %zu are left", field_, count, rest_.size());
  const std::string_view taken = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return taken;
}

bool Wire::next() {
  if (rest_.empty()) return false;
  const uint64_t key = take_varint(rest_);
  if (key >> 3 == 0 || key >> 3 >= 1u << 29) damaged("field number %llu", static_cast<unsigned long long>(key >> 3));
  field_ = static_cast<uint32_t>(key >> 3);
  type_ = static_cast<Type>(key & 7);
  switch (type_) {
    case varint:
      number_ = take_varint(rest_);
      return true;
    case fixed64:
      content_ = take(8);
      return true;
    case length:
      content_ = take(take_varint(rest_));
      return true;
    case fixed32:
      content_ = take(4);
      return true;
  }
  damaged("field %u has the unknown wire type %d", field_, static_cast<int>(type_));
}

std::string_view Wire::bytes() const {
  if (type_ != length) damaged("field %u is no text or message", field_);
  return content_;
}

int64_t Wire::integer() const {
  if (type_ != varint) damaged("field %u is no whole number", field_);
  return static_cast<int64_t>(number_);
}

float Wire::real() const {
  if (type_ != fixed32) damaged("field %u is no float", field_);
  float value;
  std::memcpy(&value, content_.data(), sizeof(value));
  return value;
}

void Wire::integers(std::vector<int64_t>& out) const {
  if (type_ == varint) {
    out.push_back(integer());
    return;
  }
  std::string_view packed = bytes();
  while (!packed.empty()) out.push_back(static_cast<int64_t>(take_varint(packed)));
}

}  // namespace softcann::model
