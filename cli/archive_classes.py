"""``stateplan archive-classes``."""

from __future__ import annotations

import os
import sys

from stateplan.cli.console import Console
from stateplan.common.readable import bytes_text
from stateplan.runtime.spark.class_archive import archive_classes

_JOB = """
CREATE TABLE orders (id BIGINT, product INT, price DOUBLE) WITH ('connector' = 'datagen', 'number-of-rows' = '100');
CREATE TABLE products (id INT, name STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '100');
CREATE TABLE totals (name STRING, n BIGINT, total DOUBLE) WITH ('connector' = 'blackhole');
INSERT INTO totals
SELECT p.name, COUNT(*), SUM(o.price) FROM orders AS o JOIN products AS p ON o.product = p.id GROUP BY p.name
"""
"""It reads, joins, aggregates and writes."""


def run(console: Console) -> None:
    """Makes the archive and says where it is.

    Raises:
        RunError: RUN017, no archive could be written.
    """
    console.note("running a small job whose Spark archives its classes")
    command = [sys.executable, "-m", "stateplan", "sql", "--no-config", "--execute", _JOB]
    path = archive_classes(command, os.environ)
    console.show(f"{path} ({bytes_text(path.stat().st_size)})", {"file": str(path), "bytes": path.stat().st_size})
