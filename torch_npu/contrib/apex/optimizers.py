"""The fused optimizers, under the path Apex has them at."""

from torch_npu.optim import *  # noqa: F403
from torch_npu.optim import __all__  # noqa: F401
