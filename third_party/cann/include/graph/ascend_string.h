// Texts of the graph interface (libgraph).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace ge {

class __attribute__((visibility("default"))) AscendString {
 public:
  AscendString() = default;
  ~AscendString() = default;
  AscendString(const char* name);  // a null pointer: no text
  AscendString(const char* name, size_t length);

  // Null where there is no text.
  const char* GetString() const;
  size_t GetLength() const;
  bool operator<(const AscendString& other) const;
  bool operator>(const AscendString& other) const;
  bool operator<=(const AscendString& other) const;
  bool operator>=(const AscendString& other) const;
  bool operator==(const AscendString& other) const;
  bool operator!=(const AscendString& other) const;

 private:
  std::shared_ptr<std::string> name_;
};

}  // namespace ge
