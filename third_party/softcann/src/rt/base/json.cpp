#include "rt/base/json.h"

#include <charconv>
#include <cstdio>
#include <utility>

#include "rt/base/error.h"
#include "rt/base/text_file.h"

namespace softcann {
namespace {

constexpr int kDeepest = 64;
constexpr size_t kLargestFile = 10 << 20;

class JsonParser {
 public:
  explicit JsonParser(std::string_view text) : text_(text) {}

  Json whole() {
    Json made = value(0);
    skip_space();
    if (at_ != text_.size()) refuse("more behind the end");
    return made;
  }

 private:
  [[noreturn]] void refuse(const char* what) const {
    size_t line = 1;
    for (const char c : text_.substr(0, at_)) line += c == '\n';
    throw Error(ErrorKind::corrupt, "line " + std::to_string(line) + ": " + what);
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  char next() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (next() != wanted) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Json value(int depth) {
    if (depth > kDeepest) refuse("nested too deep");
    Json made;
    const char first = next();
    if (first == '{') {
      read_object(&made, depth);
    } else if (first == '[') {
      read_list(&made, depth);
    } else if (first == '"') {
      made.kind = Json::Kind::text;
      made.text = read_text();
    } else if (take_word("true") || take_word("false")) {
      made.kind = Json::Kind::boolean;
      made.truth = first == 't';
    } else if (!take_word("null")) {
      read_number(&made);
    }
    return made;
  }

  void read_object(Json* made, int depth) {
    made->kind = Json::Kind::object;
    ++at_;
    if (take('}')) return;
    do {
      if (next() != '"') refuse("a key in quotes is expected");
      std::string key = read_text();
      if (!take(':')) refuse("':' is expected behind a key");
      made->object.push_back({std::move(key), value(depth + 1)});
    } while (take(','));
    if (!take('}')) refuse("',' or '}' is expected");
  }

  void read_list(Json* made, int depth) {
    made->kind = Json::Kind::list;
    ++at_;
    if (take(']')) return;
    do {
      made->list.push_back(value(depth + 1));
    } while (take(','));
    if (!take(']')) refuse("',' or ']' is expected");
  }

  void read_number(Json* made) {
    made->kind = Json::Kind::number;
    const char* end = text_.data() + text_.size();
    const auto [behind, problem] = std::from_chars(text_.data() + at_, end, made->number);
    if (problem != std::errc()) refuse("a value is expected");
    at_ = static_cast<size_t>(behind - text_.data());
  }

  unsigned hexadecimal() {
    unsigned code = 0;
    const char* begin = text_.data() + at_;
    const auto [behind, problem] = std::from_chars(begin, text_.data() + std::min(at_ + 4, text_.size()), code, 16);
    if (problem != std::errc() || behind != begin + 4) refuse("four digits are expected behind \\u");
    at_ += 4;
    return code;
  }

  static void append_utf8(std::string* text, unsigned code) {
    const auto add = [&](unsigned byte) { text->push_back(static_cast<char>(byte)); };
    if (code < 0x80) return add(code);
    if (code < 0x800) {
      add(0xc0 | code >> 6);
    } else if (code < 0x10000) {
      add(0xe0 | code >> 12);
      add(0x80 | (code >> 6 & 0x3f));
    } else {
      add(0xf0 | code >> 18);
      add(0x80 | (code >> 12 & 0x3f));
      add(0x80 | (code >> 6 & 0x3f));
    }
    add(0x80 | (code & 0x3f));
  }

  void read_escape(std::string* made) {
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const char letter = at_ < text_.size() ? text_[at_++] : '\0';
    if (letter == 'u') {
      unsigned code = hexadecimal();
      if (code >= 0xd800 && code < 0xdc00 && take_word("\\u")) code = 0x10000 + ((code & 0x3ff) << 10) + (hexadecimal() & 0x3ff);
      return append_utf8(made, code);
    }
    const size_t known = kLetters.find(letter);
    if (known == std::string_view::npos) refuse("an unknown escape in a text");
    made->push_back(kMeanings[known]);
  }

  std::string read_text() {
    std::string made;
    ++at_;
    while (at_ < text_.size() && text_[at_] != '"') {
      const char c = text_[at_++];
      if (static_cast<unsigned char>(c) < ' ') refuse("a text goes beyond its line");
      if (c == '\\') {
        read_escape(&made);
      } else {
        made.push_back(c);
      }
    }
    if (at_ == text_.size()) refuse("a text without an end");
    ++at_;
    return made;
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, value] : object) {
    if (name == key) return &value;
  }
  return nullptr;
}

Json parse_json(std::string_view text) { return JsonParser(text).whole(); }

std::string json_text(std::string_view text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    if (static_cast<unsigned char>(c) >= ' ') {
      made += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      made += escaped;
    }
  }
  return made + '"';
}

int read_json_file(const char* entry, const char* path, Json* content, std::string* raw) {
  const auto text = read_text_file(path, kLargestFile);
  if (!text) return fail(ACL_ERROR_INVALID_FILE, "%s: cannot read %s", entry, path);
  if (text->size() > kLargestFile) return fail(ACL_ERROR_INVALID_FILE, "%s: %s is larger than 10 MiB", entry, path);
  try {
    *content = parse_json(*text);
  } catch (const Error& error) {
    return fail(ACL_ERROR_PARSE_FILE, "%s: %s is no JSON: %s", entry, path, error.what());
  }
  if (!content->is(Json::Kind::object)) return fail(ACL_ERROR_PARSE_FILE, "%s: %s holds no JSON object", entry, path);
  if (raw != nullptr) *raw = *text;
  return ACL_SUCCESS;
}

}  // namespace softcann
