// Loops that are compiled for newer processors too; the loader takes the best that this one has.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__clang__)
#define SOFTCANN_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SOFTCANN_CLONES
#endif
