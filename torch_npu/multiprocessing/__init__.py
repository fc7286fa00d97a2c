"""NPU tensors between processes: torch.multiprocessing sends them by handle, without copying."""
