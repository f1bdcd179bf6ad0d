"""Images in every form that the decoders accept, and what Pillow and torchvision make of them.

usage: data_images.py OUT [SHARED_DATA]
OUT/in/NAME is a file to decode; OUT/cases.txt lists `expected-file input-file operation arguments...`, and each
expected file is three little-endian int32 (height, width, channels) followed by the bytes.
"""
import io
import pathlib
import struct
import sys
import zlib

import numpy as np
from PIL import Image
from torchvision.transforms import functional as F

out = pathlib.Path(sys.argv[1])
shared = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
(out / "in").mkdir()
(out / "expected").mkdir()
rng = np.random.default_rng(7)
cases = []


def photo(height, width, channels=3):
    """Smooth content with some noise, as photographs have."""
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    planes = [127 + 90 * np.sin(x / (9 + 5 * c) + y / (17 - 3 * c)) + rng.normal(0, 12, (height, width))
              for c in range(channels)]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def expect(name, operation, image):
    array = np.asarray(image)
    path = out / "expected" / f"{len(cases):03d}.bin"
    path.write_bytes(struct.pack("<3i", *array.shape) + array.tobytes())
    cases.append(f"{path} {out / 'in' / name} {operation}")


def add(name, data):
    (out / "in" / name).write_bytes(data)
    expect(name, "decode", Image.open(io.BytesIO(data)).convert("RGB"))


def saved(image, kind, **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png(height, width, depth, colour, rows, extra=b""):
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    body = b"".join(b"\0" + row for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0))
            + extra + chunk(b"IDAT", zlib.compress(body)) + chunk(b"IEND", b""))


def in_two_passes(image, height, width):
    """Rows, then columns: which goes first where both change depends on Pillow's version and the sizes."""
    rows = image.resize((width, image.height), Image.Resampling.BILINEAR)
    return rows.resize((width, height), Image.Resampling.BILINEAR)


rgb = Image.fromarray(photo(61, 83))
for sampling in ("4:4:4", "4:2:2", "4:2:0"):
    add(f"rgb-{sampling.replace(':', '')}.jpg", saved(rgb, "JPEG", quality=90, subsampling=sampling))
add("progressive.jpg", saved(rgb, "JPEG", quality=80, progressive=True))
add("restarts.jpg", saved(rgb, "JPEG", quality=80, restart_marker_blocks=3))
add("grey.jpg", saved(rgb.convert("L"), "JPEG"))
add("cmyk.jpg", saved(rgb.convert("CMYK"), "JPEG", quality=90))
exif = Image.Exif()
exif[0x0112] = 6  # orientation: rotated
add("rotated.jpg", saved(rgb, "JPEG", exif=exif))
add("one-pixel.jpg", saved(Image.fromarray(photo(1, 1)), "JPEG"))
add("a-png-named.jpg", saved(rgb, "PNG"))
# YCCK: as cmyk.jpg's four components, but said to be luminance, chrominance and black.
ycck = bytearray(saved(rgb.convert("CMYK"), "JPEG", quality=95))
marker = ycck.find(b"Adobe")
ycck[marker + 11] = 2
add("ycck.jpg", bytes(ycck))

alpha = Image.fromarray(np.concatenate([photo(40, 31), photo(40, 31, 1)], -1))
add("rgb.png", saved(rgb, "PNG"))
add("rgba.png", saved(alpha, "PNG"))
add("grey.png", saved(rgb.convert("L"), "PNG"))
add("grey-alpha.png", saved(alpha.convert("LA"), "PNG"))
add("palette.png", saved(rgb.quantize(37), "PNG"))
add("palette-16.png", saved(rgb.quantize(13), "PNG", bits=4))
add("palette-clear.png", saved(rgb.quantize(37), "PNG", transparency=bytes(range(37))))
add("bits.png", saved(rgb.convert("1"), "PNG"))
add("grey-2-bit.png", png(3, 8, 2, 0, [rng.bytes(2) for _ in range(3)]))
add("grey-4-bit.png", png(3, 7, 4, 0, [rng.bytes(4) for _ in range(3)]))
add("grey-16-bit.png", png(5, 6, 16, 0, [rng.integers(0, 600, 6).astype(">u2").tobytes() for _ in range(5)]))
add("grey-alpha-16-bit.png", png(5, 6, 16, 4, [rng.bytes(24) for _ in range(5)]))
add("rgb-16-bit.png", png(5, 6, 16, 2, [rng.bytes(36) for _ in range(5)]))
add("rgba-16-bit.png", png(5, 6, 16, 6, [rng.bytes(48) for _ in range(5)]))
add("rgb-clear-colour.png", saved(rgb, "PNG", transparency=(1, 2, 3)))
# A file that Pillow cannot write: interlaced (Adam7), made of its seven passes.
pixels = photo(13, 11)
passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
rows = [line.tobytes() for top, left, down, right in passes for line in pixels[top::down, left::right] if line.size]
interlaced = bytearray(png(13, 11, 8, 2, rows))
interlaced[28] = 1
interlaced[29:33] = struct.pack(">I", zlib.crc32(interlaced[12:29]))
add("interlaced.png", bytes(interlaced))

if shared is not None:
    for path in sorted((shared / "cifar10-sample" / "test").glob("*/*.jpg"))[::50]:
        add("cifar-" + path.parent.name + path.name, path.read_bytes())
    for path in sorted((shared / "imagenet-sample").glob("*.JPEG"))[::16]:
        add("imagenet-" + path.name, path.read_bytes())

# Geometry, on losslessly stored pixels.
for height, width in ((61, 83), (200, 90), (7, 5), (1, 9), (33, 33)):
    name = f"geometry-{height}x{width}.png"
    image = Image.fromarray(photo(height, width))
    (out / "in" / name).write_bytes(saved(image, "PNG"))
    for size in (1, 4, 24, 33, 61, 100):
        expect(name, f"resize {size}", F.resize(image, size))
        expect(name, f"center_crop {size}", F.center_crop(image, [size, size]))
        expect(name, f"resize_in_two_passes {size} {2 * size + 1}", in_two_passes(image, size, 2 * size + 1))
    box = (height // 3, width // 4, max(height // 2, 1), max(width // 2, 1))
    expect(name, "flip", F.hflip(image))
    expect(name, "resized_crop %d %d %d %d 32" % box, F.resized_crop(image, *box, [32, 32]))
    expect(name, "crop -2 -3 4 5", F.crop(F.pad(image, 4), 2, 1, 4, 5))

(out / "cases.txt").write_text("\n".join(cases) + "\n")

# Files that must be refused.
bad = out / "bad"
bad.mkdir()
whole = saved(rgb, "JPEG", quality=90)
(bad / "truncated.jpg").write_bytes(whole[:len(whole) // 2])
(bad / "no-end.jpg").write_bytes(whole[:-2])
(bad / "ends-early.jpg").write_bytes(whole[:len(whole) // 2] + b"\xff\xd9")
(bad / "header-only.jpg").write_bytes(whole[:300])
(bad / "empty.jpg").write_bytes(b"")
(bad / "text.jpg").write_bytes(b"not an image at all")
(bad / "huge.jpg").write_bytes(whole.replace(struct.pack(">HH", 61, 83), struct.pack(">HH", 65000, 65000), 1))
whole = saved(rgb, "PNG")
(bad / "truncated.png").write_bytes(whole[:len(whole) // 2])
flipped = bytearray(whole)
flipped[len(whole) // 2] ^= 0x10
(bad / "flipped.png").write_bytes(bytes(flipped))
# Stored pixels inflate whatever their values: only the checksums tell that one of them changed.
flipped = bytearray(saved(rgb, "PNG", compress_level=0))
flipped[len(flipped) // 2] ^= 0x10
(bad / "flipped-stored.png").write_bytes(bytes(flipped))
(bad / "huge.png").write_bytes(png(60000, 60000, 8, 2, [b"\0" * 10]))
