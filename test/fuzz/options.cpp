// softcann's environment: every option with the same text, and names that there are not.
#include <memory>
#include <utility>
#include <vector>

#include "rt/base/options.cpp"  // read_environment() is its own

// Not setenv(): the C library keeps every text that a variable ever had, and a long run is out of memory.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), strnlen(reinterpret_cast<const char*>(data), size));
  std::vector<std::string> entries;
  for (const char* name : softcann::kNames) entries.push_back(std::string(name) + "=" + text);
  entries.push_back("SOFTCANN_" + text);
  std::vector<char*> environment;
  for (std::string& entry : entries) environment.push_back(entry.data());
  environment.push_back(nullptr);
  char** const inherited = std::exchange(environ, environment.data());
  const std::unique_ptr<softcann::Options> values(softcann::read_environment());
  environ = inherited;
  for (const char character : values->error) {
    if (static_cast<unsigned char>(character) >= 0x80) __builtin_trap();  // errors are ASCII
  }
  if (values->device_count < 1 || values->device_count > 64) __builtin_trap();
  return 0;
}
