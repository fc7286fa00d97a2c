// SHA-256 (FIPS 180-4) and HMAC (RFC 2104) over it.
//
// Note [Own SHA-256]
// A library would be the better home, but the runtime's only dependency is libc: libcrypto is not on every machine in the
// version it was linked with, and the kernel's AF_ALG sockets are switched off in many containers. What is needed is small,
// fixed by a standard, not in any hot path, and tested against Python's hashlib and hmac.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace softcann {

using Digest = std::array<uint8_t, 32>;

Digest sha256(const std::string& data);
Digest hmac_sha256(const Digest& key, const std::string& data);
// Takes as long whether and wherever they differ.
bool equal(const Digest& a, const Digest& b);

}  // namespace softcann
