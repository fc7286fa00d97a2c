// Rank tables: the file that HcclCommInitClusterInfo is given.
#include <sys/mman.h>

#include "comm/cluster_info.cpp"  // read_table() is its own

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("table", 0);
  if (ftruncate(file, static_cast<off_t>(size)) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size))
    __builtin_trap();
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  std::string table;
  uint32_t ranks = 0;
  // A table that is taken lists at least one rank in ten bytes of its text.
  if (read_table("fuzz", path.c_str(), &table, &ranks) == HCCL_SUCCESS && (ranks == 0 || ranks > size / 10)) __builtin_trap();
  return 0;
}
