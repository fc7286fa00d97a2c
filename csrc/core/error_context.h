// What layers above have to add to the text of a device error.
#pragma once

#include <string>

#include <c10/macros/Export.h>

namespace torch_npu::core {

// Has `explain` asked, on the thread that met the error, when the code is one of the device (507000 and above); empty for
// nothing to add.
C10_EXPORT void explain_device_errors_with(std::string (*explain)());

}  // namespace torch_npu::core
