// libc_sec: copies and texts that know the room at their destination. Where something does not fit, the destination is emptied
// and the code says why: the C standard's codes, and 128 more where the destination was emptied.
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace {

constexpr int kEmptied = 128;
constexpr int kInvalid = EINVAL, kRange = ERANGE, kOverlap = 54;
constexpr size_t kMost = 0x7fffffff;

// A code, unless the arguments of a copy of `count` bytes are well.
int check_bytes(void* dest, size_t room, const void* src, size_t count, bool may_overlap) {
  if (room == 0 || room > kMost) return kRange;
  if (dest == nullptr) return kInvalid;
  int code = 0;
  if (src == nullptr) {
    code = kInvalid;
  } else if (count > room) {
    code = kRange;
  } else if (!may_overlap && dest != src) {
    const auto a = reinterpret_cast<uintptr_t>(dest), b = reinterpret_cast<uintptr_t>(src);
    if (a - b < count || b - a < count) code = kOverlap;
  }
  if (code == 0) return 0;
  std::memset(dest, 0, room);
  return code + kEmptied;
}

// Appends `count` characters behind `used`, and the end of the text.
int put_text(char* dest, size_t room, size_t used, const char* src, size_t count) {
  int code = 0;
  if (used == room || count >= room - used) {
    code = kRange;
  } else if (dest != src) {
    const auto a = reinterpret_cast<uintptr_t>(dest), b = reinterpret_cast<uintptr_t>(src);
    if (a - b < count + 1 || b - a < used + count + 1) code = kOverlap;
  }
  if (code != 0) {
    dest[0] = '\0';
    return code + kEmptied;
  }
  std::memmove(dest + used, src, count);
  dest[used + count] = '\0';
  return 0;
}

int check_text(char* dest, size_t room, const char* src) {
  if (room == 0 || room > kMost) return kRange;
  if (dest == nullptr) return kInvalid;
  if (src != nullptr) return 0;
  dest[0] = '\0';
  return kInvalid + kEmptied;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int memcpy_s(void* dest, size_t destMax, const void* src, size_t count) {
  if (const int code = check_bytes(dest, destMax, src, count, false)) return code;
  if (dest != src) std::memcpy(dest, src, count);
  return 0;
}

int memmove_s(void* dest, size_t destMax, const void* src, size_t count) {
  if (const int code = check_bytes(dest, destMax, src, count, true)) return code;
  std::memmove(dest, src, count);
  return 0;
}

int memset_s(void* dest, size_t destMax, int c, size_t count) {
  if (destMax == 0 || destMax > kMost) return kRange;
  if (dest == nullptr) return kInvalid;
  std::memset(dest, c, count > destMax ? destMax : count);
  return count > destMax ? kRange + kEmptied : 0;
}

int strcpy_s(char* strDest, size_t destMax, const char* strSrc) {
  if (const int code = check_text(strDest, destMax, strSrc)) return code;
  return put_text(strDest, destMax, 0, strSrc, strnlen(strSrc, destMax));
}

int strncpy_s(char* strDest, size_t destMax, const char* strSrc, size_t count) {
  if (const int code = check_text(strDest, destMax, strSrc)) return code;
  return put_text(strDest, destMax, 0, strSrc, strnlen(strSrc, count < destMax ? count : destMax));
}

int strcat_s(char* strDest, size_t destMax, const char* strSrc) {
  if (const int code = check_text(strDest, destMax, strSrc)) return code;
  return put_text(strDest, destMax, strnlen(strDest, destMax), strSrc, strnlen(strSrc, destMax));
}

int strncat_s(char* strDest, size_t destMax, const char* strSrc, size_t count) {
  if (const int code = check_text(strDest, destMax, strSrc)) return code;
  return put_text(strDest, destMax, strnlen(strDest, destMax), strSrc, strnlen(strSrc, count < destMax ? count : destMax));
}

// The length of the text, or -1: with nothing of it where it does not fit, ...
int vsprintf_s(char* strDest, size_t destMax, const char* format, va_list args) {
  if (strDest == nullptr || destMax == 0 || destMax > kMost) return -1;
  const int length = format != nullptr ? std::vsnprintf(strDest, destMax, format, args) : -1;
  if (length >= 0 && static_cast<size_t>(length) < destMax) return length;
  strDest[0] = '\0';
  return -1;
}

// ... and with its first `count` characters where those are not all.
int vsnprintf_s(char* strDest, size_t destMax, size_t count, const char* format, va_list args) {
  if (count >= destMax) return vsprintf_s(strDest, destMax, format, args);
  if (strDest == nullptr || destMax > kMost) return -1;
  const int length = format != nullptr ? std::vsnprintf(strDest, count + 1, format, args) : -1;
  if (length < 0) strDest[0] = '\0';
  return length >= 0 && static_cast<size_t>(length) <= count ? length : -1;
}

int sprintf_s(char* strDest, size_t destMax, const char* format, ...) {
  va_list args;
  va_start(args, format);
  const int length = vsprintf_s(strDest, destMax, format, args);
  va_end(args);
  return length;
}

int snprintf_s(char* strDest, size_t destMax, size_t count, const char* format, ...) {
  va_list args;
  va_start(args, format);
  const int length = vsnprintf_s(strDest, destMax, count, format, args);
  va_end(args);
  return length;
}
}
#pragma GCC visibility pop
