#include "rt/base/soc_spec.h"

#include <cstring>

#include "rt/base/options.h"

namespace softcann {
namespace {

struct Row {
  const char* prefix;
  Persona persona;
};

constexpr int64_t kMiB = 1 << 20;

// The first row whose prefix fits. options.cpp lets no other name pass.
const Row kRows[] = {
    {"Ascend910B1", {24, 48, 192 * kMiB, 2201, true, true}}, {"Ascend910B2", {24, 48, 192 * kMiB, 2201, true, true}},
    {"Ascend910B", {20, 40, 192 * kMiB, 2201, true, true}},  {"Ascend910_93", {24, 48, 192 * kMiB, 2201, true, true}},
    {"Ascend910A", {32, 32, 32 * kMiB, 1001, false, false}}, {"Ascend910P", {30, 30, 32 * kMiB, 1001, false, false}},
    {"Ascend310P", {8, 8, 16 * kMiB, 2002, false, false}},   {"Ascend310B", {1, 1, 2 * kMiB, 3002, true, true}},
    {"Ascend950", {32, 64, 128 * kMiB, 3510, true, true}},
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

bool known_soc(const std::string& name) { return find(name) != nullptr; }

}  // namespace softcann
