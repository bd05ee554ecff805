"""Delta tables with deletion vectors."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.delta import append, log

FEED = {"delta.enableChangeDataFeed": "true"}

VECTOR = {  # rows 3, 4, 7, 11, 18 and 29: the example of Delta's protocol
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 44,
    "cardinality": 6,
}
GONE = {3, 4, 7, 11, 18, 29}


def with_vector(path: Path, feed: bool = False) -> None:
    """A table whose second version takes rows out of its file by a deletion vector, as Spark writes it."""
    append(path, *((k, "x") for k in range(40)), configuration=FEED if feed else None)
    first = log(path, 0)
    for action in first:
        if "protocol" in action:
            features = ["deletionVectors", *(["changeDataFeed"] if feed else [])]
            action["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"],
                "writerFeatures": features,
            }
    (added,) = [action["add"] for action in first if "add" in action]
    remove = {"path": added["path"], "deletionTimestamp": 1, "dataChange": True, "partitionValues": {}, "size": 1}
    second = [{"commitInfo": {"timestamp": 5}}, {"remove": remove}, {"add": {**added, "deletionVector": VECTOR}}]
    for version, actions in enumerate((first, second)):
        file = path / "_delta_log" / f"{version:020d}.json"
        file.write_text("\n".join(map(json.dumps, actions)))
