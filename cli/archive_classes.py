"""``stateplan archive-classes``."""

from __future__ import annotations

import os
import sys

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.common.readable import bytes_text

_JOB = """
CREATE TABLE orders (id BIGINT, product INT, price DOUBLE) WITH ('connector' = 'datagen', 'number-of-rows' = '100');
CREATE TABLE products (id INT, name STRING) WITH ('connector' = 'datagen', 'number-of-rows' = '100');
CREATE TABLE totals (name STRING, n BIGINT, total DOUBLE) WITH ('connector' = 'blackhole');
INSERT INTO totals
SELECT p.name, COUNT(*), SUM(o.price) FROM orders AS o JOIN products AS p ON o.product = p.id GROUP BY p.name
"""
"""It reads, joins, aggregates and writes."""

_IN_SPARK = ("-D", "table.exec.local.max-input-size=0")


@command(formats=False)
def archive_classes(console: Console) -> None:
    """Archive the classes that Spark loads, so that jobs on this machine start faster. Once per Java and Spark."""
    from stateplan.runtime.spark import class_archive

    console.note("running a small job whose Spark archives its classes")
    arguments = [sys.executable, "-m", "stateplan", "sql", "--no-config", *_IN_SPARK, "--execute", _JOB]
    path = class_archive.archive_classes(arguments, os.environ)
    console.show(f"{path} ({bytes_text(path.stat().st_size)})", {"file": str(path), "bytes": path.stat().st_size})
