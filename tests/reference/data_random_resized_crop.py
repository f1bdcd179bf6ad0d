"""Boxes that torchvision draws for images of given sizes: one line `top left height width` each.

usage: COUNT HEIGHT WIDTH [HEIGHT WIDTH ...]
"""
import sys

import torch
from PIL import Image
from torchvision.transforms import RandomResizedCrop

count, *sizes = map(int, sys.argv[1:])
torch.manual_seed(11)
for height, width in zip(sizes[::2], sizes[1::2]):
    image = Image.new("RGB", (width, height))
    for _ in range(count):
        print(*RandomResizedCrop.get_params(image, [0.08, 1.0], [3.0 / 4.0, 4.0 / 3.0]))
