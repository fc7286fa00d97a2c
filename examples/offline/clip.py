"""Which text fits a picture: CLIP's two encoders as two .om files, compared with eager.

    python examples/offline/clip.py ["a red circle" "two green squares" ...]

The network has CLIP's form (a vision transformer and a text transformer whose last token is the text) and random weights, so
the answer means nothing; load a checkpoint of openai/clip-vit-base-patch32 into the modules for one that does. Everything after
the encoders (norms, the product of features, softmax) is a few numbers and stays on the host.
"""
import argparse
import pathlib
import tempfile

import acl
import numpy as np
import torch
from infer import Model, check
from torch import nn

SIZE, PATCH, WIDTH, HEADS, LAYERS, FEATURES = 64, 16, 64, 4, 2, 32
WORDS, LENGTH, END = 260, 24, 257   # bytes, and the ends of a text; CLIP's own has 49,408 words and 77 places


def blocks():
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


class ImageEncoder(nn.Module):
    """Pictures [n, 3, SIZE, SIZE], normalised -> features [n, FEATURES]."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH, bias=False)
        self.first = nn.Parameter(torch.randn(1, 1, WIDTH) * 0.1)
        self.places = nn.Parameter(torch.randn(1, (SIZE // PATCH) ** 2 + 1, WIDTH) * 0.1)
        self.blocks, self.norm, self.project = blocks(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, FEATURES, bias=False)

    def forward(self, pictures):
        x = self.patches(pictures).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.project(self.norm(self.blocks(x)[:, 0]))


class TextEncoder(nn.Module):
    """Words [n, LENGTH] of int64 -> features [n, FEATURES], which are those of the place where the text ends."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(torch.randn(1, LENGTH, WIDTH) * 0.1)
        self.blocks, self.norm, self.project = blocks(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, FEATURES, bias=False)
        self.register_buffer("later", torch.full((LENGTH, LENGTH), float("-inf")).triu(1), persistent=False)

    def forward(self, words):
        x = self.norm(self.blocks(self.words(words) + self.places, mask=self.later))
        ends = (words == END).to(x.dtype).unsqueeze(-1)   # a product, where indexing would need each text's place
        return self.project((x * ends).sum(1))


def words_of(texts):
    made = np.zeros((len(texts), LENGTH), np.int64)
    for row, text in zip(made, texts):
        numbers = [END - 1, *text.encode()[:LENGTH - 2], END]
        row[:len(numbers)] = numbers
    return made


def probabilities(image, text, scale=100.0):
    """Of each text for each picture, from their features."""
    image, text = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (image, text))
    logits = scale * image @ text.T
    made = np.exp(logits - logits.max(1, keepdims=True))
    return made / made.sum(1, keepdims=True)


def convert(encoder, example, folder, name):
    from softcann import atc

    torch.onnx.export(encoder, (example,), str(folder / f"{name}.onnx"), input_names=["x"], output_names=["features"],
                      opset_version=17, dynamo=False)
    return atc.convert(folder / f"{name}.onnx", folder / name, soc_version=acl.get_soc_name(), precision_mode_v2="origin")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("texts", nargs="*", default=["a red circle", "two green squares", "nothing"])
    texts = parser.parse_args().texts
    torch.manual_seed(0)
    encoders = (ImageEncoder().eval(), TextEncoder().eval())
    inputs = (torch.randn(1, 3, SIZE, SIZE), torch.from_numpy(words_of(texts)))
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    features = []
    with tempfile.TemporaryDirectory() as temporary:
        for name, encoder, x in zip(("image", "text"), encoders, inputs):
            model = Model(convert(encoder, x, pathlib.Path(temporary), name))
            features += model(x.numpy())
            model.close()
    check(acl.rt.reset_device(0), "acl.rt.reset_device")
    check(acl.finalize(), "acl.finalize")
    with torch.no_grad():
        worst = max(float(np.abs(found - encoder(x).numpy()).max()) for found, encoder, x in zip(features, encoders, inputs))
    for text, part in zip(texts, probabilities(*features)[0]):
        print(f"{part:.3f} {text}")
    print(f"largest difference from eager {worst:.1e}")
    if not worst < 1e-4:
        raise SystemExit("the encoders differ from eager")


if __name__ == "__main__":
    main()
