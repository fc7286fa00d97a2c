// Memory of aclrtMemAllocManaged, for aclrtFree.
#pragma once

namespace softcann {

// Gives it back; false where `p` is not the beginning of any.
bool free_managed(void* p);

}  // namespace softcann
