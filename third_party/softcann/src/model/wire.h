// Protobuf's wire format, read within bounds.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rt/base/error.h"

namespace softcann::model {

[[noreturn]] void damaged(const char* format, ...) __attribute__((format(printf, 1, 2)));

// A text that holds names of the file as one that people and programs can read: what is no UTF-8, and what is not printed, is a
// question mark.
std::string readable(std::string text);

// Goes through the fields of one message. Everything it hands out lies within the bytes it was given; what does not fit
// is an Error of the kind `corrupt`.
class Wire {
 public:
  explicit Wire(std::string_view bytes) : rest_(bytes) {}

  // The next field; false at the end.
  bool next();
  uint32_t field() const { return field_; }

  // The field's value as what the schema says it is.
  std::string_view bytes() const;
  std::string text() const { return std::string(bytes()); }
  int64_t integer() const;
  float real() const;
  // A repeated number: one value, or many packed.
  void integers(std::vector<int64_t>& out) const;

 private:
  enum Type : uint8_t { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };
  static uint64_t take_varint(std::string_view& from);
  std::string_view take(size_t count);

  std::string_view rest_;
  uint32_t field_ = 0;
  Type type_ = varint;
  uint64_t number_ = 0;
  std::string_view content_;
};

}  // namespace softcann::model
