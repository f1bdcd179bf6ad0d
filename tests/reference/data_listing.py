"""What torchvision and numpy find in a data set.

usage: folder ROOT   class names, then `target path` a sample (torchvision.datasets.ImageFolder)
       idx IMAGES LABELS   dimensions, label and pixel sums, crc32 of the pixels
"""
import gzip
import pathlib
import sys
import zlib

import numpy as np


def folder(root):
    from torchvision.datasets import ImageFolder

    data = ImageFolder(root)
    print(*data.classes)
    for path, target in data.samples:
        print(target, pathlib.Path(path).relative_to(root))


def read(path, header):
    data = pathlib.Path(path).read_bytes()
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    dims = [int(n) for n in np.frombuffer(data, ">u4", (header - 4) // 4, 4)]
    return dims, np.frombuffer(data, np.uint8, offset=header)


if sys.argv[1] == "folder":
    folder(sys.argv[2])
else:
    dims, pixels = read(sys.argv[2], 16)
    _, labels = read(sys.argv[3], 8)
    print(*dims, int(pixels.sum()), int((labels.astype(np.int64) * np.arange(1, len(labels) + 1)).sum()),
          zlib.crc32(pixels.tobytes()))
