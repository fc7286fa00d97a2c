// SHA-256 (FIPS 180-4) and HMAC (RFC 2104) over it.
//
// Note [Own SHA-256]
// A library would be the better home, but the runtime's only dependency is libc: libcrypto is not on every machine in the
// version it was linked with, and the kernel's AF_ALG sockets are switched off in many containers. What is needed is small,
// fixed by a standard, and tested against Python's hashlib and hmac. Processors that have instructions for it use them, as models
// of many megabytes are checked when they are loaded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fault/fault.h"

namespace softcann {

using Digest = std::array<uint8_t, 32>;

SOFTCANN_API Digest sha256(std::string_view data);
SOFTCANN_API Digest hmac_sha256(const Digest& key, const std::string& data);
// Takes as long whether and wherever they differ.
SOFTCANN_API bool equal(const Digest& a, const Digest& b);

}  // namespace softcann
