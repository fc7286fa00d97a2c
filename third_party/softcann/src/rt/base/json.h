// JSON texts, read whole: the configuration files of clients.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rt/runtime.h"

namespace softcann {

struct JsonMember;

struct Json {
  enum class Kind : uint8_t { null, boolean, number, text, list, object };
  Kind kind = Kind::null;
  bool truth = false;
  double number = 0;
  std::string text;
  std::vector<Json> list;
  std::vector<JsonMember> object;

  bool is(Kind wanted) const { return kind == wanted; }
  // Of an object: the value of a key, null where it has none.
  SOFTCANN_API const Json* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  Json value;
};

// Throws Error(corrupt) that names the line. A text may nest 64 deep.
SOFTCANN_API Json parse_json(std::string_view text);
// The text in quotes, for a JSON text.
SOFTCANN_API std::string json_text(std::string_view text);

// What a client's configuration file holds, which is an object. ACL_ERROR_INVALID_FILE where it cannot be read, or is larger than
// 10 MiB, ACL_ERROR_PARSE_FILE where it is no JSON, each with a text that names `entry`.
int read_json_file(const char* entry, const char* path, Json* content, std::string* raw = nullptr);

}  // namespace softcann
