"""From a JPEG to its five likeliest classes: decoded and resized by DVPP, normalised by AIPP, classified by a ResNet's .om.

    pip install softcann[atc] numpy
    python examples/offline/classify.py photo.jpg [--labels names.txt] [--keep folder]

It prints class_ids, scores and label_names. The weights are random, so the classes mean nothing; load a checkpoint into resnet()
for some that do. In a shell of CANN's it runs on its atc and acl, where they are installed.
"""
import argparse
import pathlib
import tempfile

import acl
import numpy as np
import pictures
import torch
from infer import Model, check
from torch import nn

SIZE = 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(inside, outside, 3, stride, 1, bias=False), nn.BatchNorm2d(outside), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside))
        down = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))
        self.short = down if stride > 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.second(self.first(x)) + self.short(x))


def resnet(classes=1000):
    """ResNet-18 with random weights."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    for inside, outside in ((64, 64), (64, 128), (128, 256), (256, 512)):
        layers += [Block(inside, outside, 1 if inside == outside else 2), Block(outside, outside, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes)).eval()


def classify(model, content):
    """Scores of all classes, of a JPEG's bytes."""
    logits = pictures.run(model, content, SIZE)[0][0].astype(np.float64)
    exponents = np.exp(logits - logits.max())
    return exponents / exponents.sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("image", type=pathlib.Path)
    parser.add_argument("--labels", type=pathlib.Path, help="a file with the name of a class in each line")
    parser.add_argument("--keep", type=pathlib.Path, help="where the model is to stay")
    given = parser.parse_args()
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    with tempfile.TemporaryDirectory() as temporary:
        model = Model(pictures.convert(resnet(), given.keep or pathlib.Path(temporary), "resnet", SIZE, MEAN, STD))
        scores = classify(model, given.image.read_bytes())
    names = given.labels.read_text().splitlines() if given.labels else []
    best = np.argsort(-scores)[:5]
    print("class_ids:", best.tolist())
    print("scores:", [round(float(scores[one]), 6) for one in best])
    print("label_names:", [names[one] if one < len(names) else f"class {one}" for one in best])


if __name__ == "__main__":
    main()
