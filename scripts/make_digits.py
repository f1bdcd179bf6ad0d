#!/usr/bin/env python3
"""Writes the handwritten digits that scikit-learn ships as a pair of IDX files.

Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository,
1998, https://doi.org/10.24432/C50P49, licensed CC BY 4.0; its 1,797 test images as contained in scikit-learn.
Changed here: the counts of ink 0 to 16 in each of 8 x 8 cells become bytes, round(count * 255 / 16).
"""

import argparse
import os
import pathlib
import struct

import numpy as np
from sklearn.datasets import load_digits

SOURCE = __doc__.split("\n\n", 1)[1].strip()
EXPECTED_SHAPE = (1797, 8, 8)
MAX_INK = 16
IDX_UNSIGNED_BYTE = 0x08


def write_idx(path: pathlib.Path, array: np.ndarray) -> None:
    """Writes an IDX file: magic number (type, rank), big-endian sizes, bytes. Appears whole or not at all."""
    header = struct.pack(">BBBB", 0, 0, IDX_UNSIGNED_BYTE, array.ndim)
    header += struct.pack(f">{array.ndim}I", *array.shape)
    unfinished = path.with_suffix(".tmp")
    unfinished.write_bytes(header + array.astype(np.uint8).tobytes())
    os.replace(unfinished, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=pathlib.Path, help="where to write images-idx3-ubyte and labels-idx1-ubyte")
    folder = parser.parse_args().folder

    digits = load_digits()
    if digits.images.shape != EXPECTED_SHAPE or digits.images.max() != MAX_INK:
        raise SystemExit(f"scikit-learn's digits are not as expected: {digits.images.shape}, not {EXPECTED_SHAPE}")
    images = np.floor(digits.images * 255 / MAX_INK + 0.5)

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SOURCE.txt").write_text(SOURCE + "\n", encoding="utf-8")
    write_idx(folder / "images-idx3-ubyte", images)
    write_idx(folder / "labels-idx1-ubyte", digits.target)
    print(f"{len(images)} images of {images.shape[1]}x{images.shape[2]} in {folder}")
    print(SOURCE)


if __name__ == "__main__":
    main()
