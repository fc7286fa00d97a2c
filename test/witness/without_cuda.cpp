// Compiled for the published client's torch where that has CUDA, as PyPI's builds for x86 have; without_cuda.py calls it.
#include <c10/core/AllocatorConfig.h>
#include <dlfcn.h>

#include <string>
#include <unordered_set>

// Takes the names of CUDA's settings out of the table of all allocators' settings.
extern "C" void forget_names_of_cuda() {
  void* cuda = dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
  const auto* names = static_cast<const std::unordered_set<std::string>*>(
      dlsym(cuda, "_ZZN3c104cuda20CUDACachingAllocator19CUDAAllocatorConfig7getKeysB5cxx11EvE4keys"));
  for (const auto& name : *names) c10::CachingAllocator::AcceleratorAllocatorConfig::getMutableKeys().erase(name);
}
