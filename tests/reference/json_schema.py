"""Checks a JSON schema with the jsonschema package: json_schema.py SCHEMA GOOD.yaml ..."""
import copy
import json
import sys

import jsonschema
import yaml

schema = json.load(open(sys.argv[1], encoding="utf-8"))
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)

for path in sys.argv[2:]:
    document = yaml.safe_load(open(path, encoding="utf-8"))
    errors = [f"{path}: {'.'.join(map(str, e.absolute_path))}: {e.message}" for e in validator.iter_errors(document)]
    assert not errors, "\n".join(errors)

good = yaml.safe_load(open(sys.argv[2], encoding="utf-8"))
wrong = [
    (["optimizer", "lrr"], 1),
    (["optimizer", "lr"], "fast"),
    (["optimizer", "lr"], -1),
    (["model", "name"], "resnet51"),
    (["amp", "dtype"], "int8"),
    (["amp", "scaler", "backoff_factor"], 1),
    (["data", "train", "transforms"], ["flip"]),
    (["data", "train", "transforms"], [{"resize": {"size": 3, "padding": 1}}]),
    (["data", "train", "transforms"], [{"resize": 3, "center_crop": 3}]),
    (["data", "train", "transforms"], ["resize"]),
    (["data", "train", "transforms"], [{"normalize": {"mean": [0.5]}}]),
    (["seed"], 1.5),
]
for keys, value in wrong:
    document = copy.deepcopy(good)
    inner = document
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    assert not validator.is_valid(document), f"accepted {'.'.join(keys)}: {value}"

right = [
    (["extends"], "base.yaml"),
    (["extends"], ["a.yaml", "b.yaml"]),
    (["amp", "dtype"], "fp16"),
    (["amp", "scaler", "enabled"], True),
    (["distributed", "world_size"], "auto"),
    (["data", "eval"], None),
    (["model"], {"channels_last": True}),
    (["optimizer", "lr"], "${LR:0.1}"),
    (["data", "train", "transforms"], ["horizontal_flip", {"resize": 3}, {"random_crop": {"size": 3, "padding": 1}}]),
]
for keys, value in right:
    document = copy.deepcopy(good)
    inner = document
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    errors = [e.message for e in validator.iter_errors(document)]
    assert not errors, f"refused {'.'.join(keys)}: {value}: {errors}"
