// softcann's environment: every option with the same text, and names that there are not.
#include <memory>

#include "rt/options.cpp"  // read_environment() is its own

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), strnlen(reinterpret_cast<const char*>(data), size));
  for (const char* name : softcann::kNames) setenv(name, text.c_str(), 1);
  const std::unique_ptr<softcann::Options> values(softcann::read_environment());
  for (const char character : values->error) {
    if (static_cast<unsigned char>(character) >= 0x80) __builtin_trap();  // errors are ASCII
  }
  if (values->device_count < 1 || values->device_count > 64) __builtin_trap();
  return 0;
}
