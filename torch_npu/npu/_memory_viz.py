"""Views of memory snapshots. PyTorch's own page opens them too: https://pytorch.org/memory_viz."""

from torch.cuda._memory_viz import memory, profile_plot, segment_plot, segments, trace, trace_plot

__all__ = ["memory", "profile_plot", "segment_plot", "segments", "trace", "trace_plot"]
