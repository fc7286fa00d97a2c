// Copies and texts that know the room at their destination, of libc_sec.
#ifndef SECUREC_H_
#define SECUREC_H_

#include <stdarg.h>
#include <stddef.h>

typedef int errno_t;
#ifndef EOK
#define EOK 0
#endif

#ifdef __cplusplus
extern "C" {
#endif

// 0, or why nothing fits: the C standard's codes, 128 more where the destination was emptied.
errno_t memcpy_s(void* dest, size_t destMax, const void* src, size_t count);
errno_t memmove_s(void* dest, size_t destMax, const void* src, size_t count);
errno_t memset_s(void* dest, size_t destMax, int c, size_t count);
errno_t strcpy_s(char* strDest, size_t destMax, const char* strSrc);
errno_t strncpy_s(char* strDest, size_t destMax, const char* strSrc, size_t count);
errno_t strcat_s(char* strDest, size_t destMax, const char* strSrc);
errno_t strncat_s(char* strDest, size_t destMax, const char* strSrc, size_t count);
// The length of the text, or -1.
int sprintf_s(char* strDest, size_t destMax, const char* format, ...);
int snprintf_s(char* strDest, size_t destMax, size_t count, const char* format, ...);
int vsprintf_s(char* strDest, size_t destMax, const char* format, va_list args);
int vsnprintf_s(char* strDest, size_t destMax, size_t count, const char* format, va_list args);

#ifdef __cplusplus
}
#endif

#endif  // SECUREC_H_
