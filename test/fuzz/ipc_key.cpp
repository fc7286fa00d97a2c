// Keys of shared memory and events: text of any process.
#include "rt/memory/ipc.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const char what : {'m', 'e'}) {
    softcann::ShareKey key, again;
    if (!softcann::ShareKey::parse(text.c_str(), what, &key)) continue;
    const std::string written = key.text(what);
    if (!softcann::ShareKey::parse(written.c_str(), what, &again) || again.pid != key.pid || again.nonce != key.nonce ||
        again.slot != key.slot || again.serial != key.serial || written.size() > 63) {
      __builtin_trap();
    }
  }
  return 0;
}
