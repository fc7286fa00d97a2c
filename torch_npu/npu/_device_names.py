"""What programs for the first adapters ask the device's type by."""

native_device = "npu"
new_device = npu_device = "npu"
