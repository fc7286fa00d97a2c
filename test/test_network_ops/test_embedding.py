"""Embeddings."""
from opinfo_case import OpCase, main


class TestEmbedding(OpCase):
    ops = ("nn.functional.embedding", "nn.functional.embedding_bag", "nn.functional.one_hot")


if __name__ == "__main__":
    main()
