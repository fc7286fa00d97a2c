#include "rt/base/soc_spec.h"

#include <cstring>

#include "rt/base/options.h"

namespace softcann {
namespace {

struct Row {
  const char* prefix;
  Persona persona;
};

constexpr int64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr CoreMemory kSplitCore{64 * kKiB, 64 * kKiB, 128 * kKiB, 512 * kKiB, 192 * kKiB};  // cube and vector cores apart
constexpr CoreMemory kWholeCore{64 * kKiB, 64 * kKiB, 256 * kKiB, kMiB, 256 * kKiB};

// The first row whose prefix fits. options.cpp lets no other name pass.
const Row kRows[] = {
    {"Ascend910B1", {24, 48, 192 * kMiB, 2201, true, true, "Ascend910B", kSplitCore}},
    {"Ascend910B2", {24, 48, 192 * kMiB, 2201, true, true, "Ascend910B", kSplitCore}},
    {"Ascend910B", {20, 40, 192 * kMiB, 2201, true, true, "Ascend910B", kSplitCore}},
    {"Ascend910_93", {24, 48, 192 * kMiB, 2201, true, true, "Ascend910_93", kSplitCore}},
    {"Ascend910A", {32, 32, 32 * kMiB, 1001, false, false, "Ascend910", kWholeCore}},
    {"Ascend910P", {30, 30, 32 * kMiB, 1001, false, false, "Ascend910", kWholeCore}},
    {"Ascend310P", {8, 8, 16 * kMiB, 2002, false, false, "Ascend310P", kWholeCore}},
    {"Ascend310B", {1, 1, 2 * kMiB, 3002, true, true, "Ascend310B", {}}},
    {"Ascend950", {32, 64, 128 * kMiB, 3510, true, true, "Ascend950", {}}},
};

const Row* find(const std::string& name) {
  for (const Row& row : kRows) {
    if (name.compare(0, std::strlen(row.prefix), row.prefix) == 0) return &row;
  }
  return nullptr;
}

}  // namespace

const Persona& persona_of(const std::string& name) {
  const Row* row = find(name);
  return (row ? row : &kRows[2])->persona;
}

const Persona& persona() {
  static const Persona& own = persona_of(options().soc);  // where SOFTCANN_SOC is wrong, opening a device reports it
  return own;
}

const Persona* find_persona(const char* name) {
  const Row* row = find(name);
  return row != nullptr ? &row->persona : nullptr;
}

bool known_soc(const std::string& name) { return find(name) != nullptr; }

}  // namespace softcann
