"""Reads `ours`, `none` and `sparse.safetensors` of the folder given with Python's safetensors, writes
`theirs.safetensors` there, and prints what the first and the last hold as JSON. Also lists what is wrong
with the checkpoint `step-00000001` there, by the rules of docs/checkpoint-format.md."""

import json
import pathlib
import sys
import zlib

import torch
from safetensors import safe_open
from safetensors.torch import save_file

NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def describe(tensors):
    return {
        name: {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "bytes": tensor.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes().hex(),
        }
        for name, tensor in tensors.items()
    }


def read(path):
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata()


def faults(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    own = manifest.pop("crc32")
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    found = [] if own == f"{zlib.crc32(text.encode()):08x}" else ["manifest.json"]
    for file in manifest["files"]:
        data = (folder / file["name"]).read_bytes()
        if file["size"] != len(data) or file["crc32"] != f"{zlib.crc32(data):08x}":
            found.append(file["name"])
    named = {file["name"] for file in manifest["files"]} | {"manifest.json"}
    return found + sorted({path.name for path in folder.iterdir()} ^ named)


def main():
    folder = pathlib.Path(sys.argv[1])
    ours, metadata = read(folder / "ours.safetensors")
    none, _ = read(folder / "none.safetensors")
    with safe_open(folder / "sparse.safetensors", "pt") as file:
        last = file.get_tensor("last").tolist()

    torch.manual_seed(0)
    theirs = {f"of {name}": (10 * torch.randn(5, 3)).to(dtype) for dtype, name in NAMES.items()}
    theirs["scalar"] = torch.tensor(3.5)
    theirs["empty"] = torch.zeros(0, 4, dtype=torch.float16)
    save_file(theirs, folder / "theirs.safetensors", metadata={"made by": "Python"})

    print(json.dumps({
        "ours": describe(ours),
        "metadata": metadata,
        "none": describe(none),
        "sparse_last": last,
        "theirs": describe(theirs),
        "faults": faults(folder / "step-00000001"),
    }))


if __name__ == "__main__":
    main()
