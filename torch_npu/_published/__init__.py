"""Names of the published torch_npu, and where each is found here."""
