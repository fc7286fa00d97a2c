// Part of the published torch_npu's C++ names: docs/cpp_extension.md.
#pragma once

#include <torch_npu/memory/storage.h>  // torch_npu::NPUStorageDesc, torch_npu::NPUStorageImpl
