// Programs load lib/libop_plugin_atb.so by its published name before they call torch.ops.atb (dlinfer, lmdeploy). Here those
// operators are libtorch_npu.so's, which this library needs and adds nothing to.
