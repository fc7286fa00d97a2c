"""Losses."""
import torch
from opinfo_case import OpCase, main


class TestLoss(OpCase):
    ops = ("nn.functional.mse_loss", "nn.functional.l1_loss", "nn.functional.smooth_l1_loss",
           "nn.functional.huber_loss", "nn.functional.nll_loss", "nn.functional.cross_entropy",
           "nn.functional.binary_cross_entropy", "nn.functional.binary_cross_entropy_with_logits",
           "nn.functional.kl_div", "nn.functional.soft_margin_loss", "nn.functional.multi_margin_loss",
           "nn.functional.multilabel_margin_loss", "nn.functional.hinge_embedding_loss", "nn.functional.ctc_loss")
    dtypes = (torch.float32, torch.float64)


if __name__ == "__main__":
    main()
