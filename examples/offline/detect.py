"""From a JPEG to boxes with labels: decoded and resized by DVPP, normalised by AIPP, searched by a detector's .om.

    pip install softcann[atc] numpy pillow
    python examples/offline/detect.py shapes.jpg --example [--keep folder]

The detector is small and finds circles, squares and triangles: it is trained here, in less than a minute, on pictures that are
drawn as it learns. --example draws one more, shapes.jpg, to look at. With --keep the model stays, and the next run takes it from
there. It prints one line for each box: label, score, and the left, top, right and bottom in the JPEG's pixels. In a shell of
CANN's it runs on its atc and acl, where they are installed.
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
from torch.nn import functional as F

SIZE, STRIDE, FOUND = 128, 8, 10
MEAN, STD = (0.5, 0.5, 0.5), (0.25, 0.25, 0.25)
LABELS = ("circle", "square", "triangle")


def draw(chance, width=SIZE, height=SIZE):
    """RGB [height, width, 3] of 0 to 255 with one to three shapes, and the label and box (x1, y1, x2, y2) in pixels of each."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    slope = chance.uniform(-40, 40, (2, 3)).astype(np.float32)
    image = chance.uniform(20, 110, 3) + x[..., None] / width * slope[0] + y[..., None] / height * slope[1]
    found = []
    for label in chance.integers(0, 3, chance.integers(1, 4)):
        wide, high = chance.uniform(0.2, 0.4, 2) * (width, height)
        left, top = chance.uniform(0, 1, 2) * (width - wide, height - high)
        box = (left, top, left + wide, top + high)
        if any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for _, b in found):
            continue
        u, v = (x + 0.5 - left) / wide * 2 - 1, (y + 0.5 - top) / high * 2 - 1
        inside = (u * u + v * v < 1, np.maximum(abs(u), abs(v)) < 1, (abs(v) < 1) & (abs(u) < (v + 1) / 2))[label]
        color = chance.uniform(0, 255, 3)
        color[chance.integers(0, 3)] = 240   # brighter than any background
        image[inside] = color
        found.append((int(label), box))
    return np.clip(image + chance.normal(0, 4, image.shape), 0, 255).astype(np.uint8), found


class Detector(nn.Module):
    """Normalised pictures [N, 3, SIZE, SIZE] to boxes [N, FOUND, 4], parts of the picture, scores and labels [N, FOUND]."""

    def __init__(self):
        super().__init__()
        layers, inputs = [], 3
        for width, stride, dilation in ((16, 2, 1), (32, 2, 1), (48, 2, 1), (48, 1, 2), (48, 1, 4)):
            layers += [nn.Conv2d(inputs, width, 3, stride, dilation, dilation, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
            inputs = width
        self.body, self.scores, self.sides = nn.Sequential(*layers), nn.Conv2d(inputs, len(LABELS), 1), nn.Conv2d(inputs, 4, 1)
        nn.init.constant_(self.scores.bias, -4.0)   # most places are no shape's centre
        line = (torch.arange(SIZE // STRIDE) + 0.5) * STRIDE / SIZE
        self.register_buffer("centres", torch.stack([line.repeat(len(line)), line.repeat_interleave(len(line))], -1))

    def maps(self, x):
        """Logits of the labels, and how far left, up, right and down the box reaches, at each place."""
        features = self.body(x)
        return self.scores(features), F.softplus(self.sides(features))

    def forward(self, x):
        scores, sides = self.maps(x)
        scores, sides = scores.sigmoid(), sides.flatten(2).transpose(1, 2)
        peaks = scores * (scores == F.max_pool2d(scores, 3, 1, 1)).to(scores.dtype)   # no box beside a better one
        best, label = peaks.flatten(2).max(1)
        best, place = best.topk(FOUND)
        boxes = torch.cat([self.centres - sides[..., :2], self.centres + sides[..., 2:]], -1)
        return boxes.gather(1, place.unsqueeze(-1).expand(-1, -1, 4)), best, label.gather(1, place)


def targets(found):
    """Of one picture: 1 at the centre of each shape [labels, n, n], the sides [4, n, n], and where they count [1, n, n]."""
    count = SIZE // STRIDE
    heat, sides, counts = np.zeros((len(LABELS), count, count)), np.zeros((4, count, count)), np.zeros((1, count, count))
    for label, box in found:
        box = np.asarray(box) / SIZE
        column, row = ((box[:2] + box[2:]) / 2 * count).astype(int)
        for i in range(max(row - 1, 0), min(row + 2, count)):
            for j in range(max(column - 1, 0), min(column + 2, count)):
                x, y = (j + 0.5) / count, (i + 0.5) / count
                near = 1.0 if (i, j) == (row, column) else 0.5
                heat[label, i, j], counts[0, i, j] = max(heat[label, i, j], near), 1
                sides[:, i, j] = x - box[0], y - box[1], box[2] - x, box[3] - y
    return heat, sides, counts


def trained(steps, batch=16):
    torch.manual_seed(0)
    chance, network = np.random.default_rng(0), Detector()
    optimizer = torch.optim.AdamW(network.parameters(), 4e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for _ in range(steps):
        drawn = [draw(chance) for _ in range(batch)]
        x = torch.from_numpy(np.stack([image for image, _ in drawn])).permute(0, 3, 1, 2) / 255
        x = (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
        heat, sides, counts = (torch.from_numpy(np.stack(part)).float() for part in zip(*(targets(found) for _, found in drawn)))
        scores, reach = network.maps(x)
        wrong = (scores.sigmoid() - heat).abs() ** 2   # what is nearly right counts little
        loss = (wrong * F.binary_cross_entropy_with_logits(scores, heat, reduction="none")).sum() / counts.sum()
        loss = loss + 5 * ((reach - sides).abs() * counts).sum() / (4 * counts.sum())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return network.eval()


def detect(model, content, least=0.4):
    """(label, score, box in pixels) of what a JPEG's bytes show."""
    width, height, _, ret = acl.media.dvpp_jpeg_get_image_info(acl.util.bytes_to_ptr(content), len(content))
    check(ret, "dvpp_jpeg_get_image_info")
    boxes, scores, labels = (array[0] for array in pictures.run(model, content, SIZE))
    boxes = np.clip(boxes, 0, 1) * (width, height, width, height)
    return [(LABELS[label], float(score), box.tolist()) for box, score, label in zip(boxes, scores, labels) if score > least]


def converted(folder, steps):
    """The detector's .om; that of an earlier run, where the folder has one."""
    path = folder / "detector.om"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        pictures.convert(trained(steps), folder, "detector", SIZE, MEAN, STD)
    return path


def save_example(path, seed):
    from PIL import Image

    Image.fromarray(draw(np.random.default_rng(seed), 480, 360)[0]).save(path, quality=95)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("image", type=pathlib.Path)
    parser.add_argument("--example", type=int, nargs="?", const=28, metavar="SEED", help="draw shapes into the image first")
    parser.add_argument("--keep", type=pathlib.Path, help="where the model is to stay, and is looked for")
    parser.add_argument("--steps", type=int, default=400, help="of the training")
    given = parser.parse_args()
    if given.example is not None:
        save_example(given.image, given.example)
    check(acl.init(), "acl.init")
    check(acl.rt.set_device(0), "acl.rt.set_device")
    with tempfile.TemporaryDirectory() as temporary:
        model = Model(converted(given.keep or pathlib.Path(temporary), given.steps))
        for label, score, box in detect(model, given.image.read_bytes()):
            print(f"{label} {score:.3f} " + " ".join(f"{side:.1f}" for side in box))


if __name__ == "__main__":
    main()
