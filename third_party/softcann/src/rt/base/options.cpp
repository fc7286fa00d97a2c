#include "rt/base/options.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "rt/memory/check.h"
#include "rt/base/soc_spec.h"

extern char** environ;

namespace softcann {
namespace {

struct OptionParser {
  std::string* error;

  void wrong(const char* name, const char* text, const char* wanted) {
    if (error->empty()) *error = std::string(name) + "=" + printable(text) + " is not valid: " + wanted + " is expected";
  }

  // An error is text for any client: what is not ASCII is shown as \xNN.
  static std::string printable(const char* text) {
    std::string shown;
    for (; *text != 0; ++text) {
      const auto byte = static_cast<unsigned char>(*text);
      char escaped[5];
      std::snprintf(escaped, sizeof escaped, byte < 0x80 ? "%c" : "\\x%02x", byte);
      shown += escaped;
    }
    return shown;
  }

  void Count(const char* name, const char* text, uint64_t* out) {
    char* end = nullptr;
    const unsigned long long value = std::strtoull(text, &end, 10);
    if (end == text || *end != 0 || *text == '-') return wrong(name, text, "a whole number");
    *out = value;
  }

  void Bytes(const char* name, const char* text, uint64_t* out) {
    char* end = nullptr;
    const double value = std::strtod(text, &end);
    static const char kSuffixes[] = "KMGT";
    double scale = 1;
    if (end != text && *end != 0) {
      const char* found = std::strchr(kSuffixes, *end & ~0x20);
      if (found == nullptr || end[1] != 0) {
        return wrong(name, text, "a number of bytes with an optional suffix K, M, G or T");
      }
      for (const char* p = kSuffixes; p <= found; ++p) scale *= 1024;
    }
    if (end == text || !(value >= 0) || value * scale > 1e18) {
      return wrong(name, text, "a number of bytes with an optional suffix K, M, G or T");
    }
    *out = static_cast<uint64_t>(value * scale);
  }

  void Flag(const char* name, const char* text, bool* out) {
    if (std::strcmp(text, "0") != 0 && std::strcmp(text, "1") != 0) return wrong(name, text, "0 or 1");
    *out = text[0] == '1';
  }

  void Text(const char*, const char* text, std::string* out) { *out = text; }
};

const char* const kNames[] = {
#define SOFTCANN_OPTION(field, name, kind, fallback, doc) name,
#include "rt/base/options.def"
#undef SOFTCANN_OPTION
};

// A misspelt name would otherwise be a setting that silently does nothing.
void find_unknown_names(std::string* error) {
  static const char kPrefix[] = "SOFTCANN_";
  for (char** entry = environ; entry != nullptr && *entry != nullptr && error->empty(); ++entry) {
    if (std::strncmp(*entry, kPrefix, sizeof kPrefix - 1) != 0) continue;
    const std::string name(*entry, std::strcspn(*entry, "="));
    bool known = false;
    std::string all;
    for (const char* candidate : kNames) {
      known = known || name == candidate;
      if (std::strncmp(candidate, kPrefix, sizeof kPrefix - 1) == 0) all += std::string(" ") + candidate;
    }
    if (!known) *error = name + " is not an option of softcann; these are:" + all;
  }
}

// What a container may use; UINT64_MAX where there is no limit.
uint64_t container_limit() {
  uint64_t limit = UINT64_MAX;
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::FILE* file = std::fopen(path, "re");
    unsigned long long value = 0;
    if (file != nullptr && std::fscanf(file, "%llu", &value) == 1 && value < limit) limit = value;
    if (file != nullptr) std::fclose(file);
  }
  return limit;
}

uint64_t default_memory() {
  const uint64_t installed = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t machine = std::min(installed, container_limit());
  const uint64_t most = uint64_t{64} << 30;
  const uint64_t share = machine / 4 * 3;
  return share < most ? share : most;
}

Options* read_environment() {
  auto* values = new Options;  // never freed: workers may look at it while the process exits
  OptionParser parser{&values->error};
#define SOFTCANN_OPTION(field, name, kind, fallback, doc) \
  if (const char* text = std::getenv(name); text != nullptr && *text != 0) parser.kind(name, text, &values->field);
#include "rt/base/options.def"
#undef SOFTCANN_OPTION
  find_unknown_names(&values->error);
  if (values->device_count < 1 || values->device_count > 64) {
    parser.wrong("SOFTCANN_DEVICE_COUNT", std::to_string(values->device_count).c_str(), "1 to 64");
    values->device_count = 1;
  }
  if (values->transport != "auto" && values->transport != "tcp") {
    parser.wrong("SOFTCANN_TRANSPORT", values->transport.c_str(), "auto or tcp");
  }
  if (values->gemm != "auto" && values->gemm != "direct" && values->gemm != "onednn" && values->gemm != "widen") {
    parser.wrong("SOFTCANN_GEMM", values->gemm.c_str(), "auto, direct, onednn or widen");
  }
  if (check::parse(values->check) == UINT32_MAX) {
    parser.wrong("SOFTCANN_CHECK", values->check.c_str(), "memory, init and leak, separated by commas,");
  }
  if (!known_soc(values->soc)) {
    parser.wrong("SOFTCANN_SOC", values->soc.c_str(), "a name such as Ascend910B3, Ascend910_9382 or Ascend950PR_9599");
  }
  if (values->memory == 0) values->memory = default_memory();
  return values;
}

}  // namespace

const Options& options() {
  static const Options* values = read_environment();
  return *values;
}

}  // namespace softcann

// For `python -m softcann options` and the generated documentation: one line for each option, name, default and
// description, with tabs between.
extern "C" __attribute__((visibility("default"))) const char* softcannDescribeOptions() {
  static const char kText[] =
#define SOFTCANN_OPTION(field, name, kind, fallback, doc) name "\t" SOFTCANN_DEFAULT_##kind(fallback) "\t" doc "\n"
#define SOFTCANN_DEFAULT_Count(value) #value
#define SOFTCANN_DEFAULT_Bytes(value) #value
#define SOFTCANN_DEFAULT_Flag(value) #value
#define SOFTCANN_DEFAULT_Text(value) value
#include "rt/base/options.def"
#undef SOFTCANN_OPTION
      ;
  return kText;
}
