"""For programs that import it. Environment variables are read when torch_npu is imported; nothing in ``os`` is replaced."""
