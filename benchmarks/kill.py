"""kill -9 at random moments, restart, compare: both FLIP-292 examples into the file sink.

    python -m benchmarks.kill [--kills 10] [--files 12] [--rows 20000] [--seed 1] [--query dedup|join]

Each query runs once without interruption and once with its whole process group (driver, JVM, Python workers) killed
at random moments and started again on the same checkpoint. The rows of the two results must be the same. Exit code
1 when they are not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

QUERIES = {
    "dedup": """
        CREATE TABLE orders (order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, proctime AS PROCTIME())
          WITH ('connector'='filesystem', 'path'='{data}/orders', 'format'='json', 'source.max-files-per-trigger'='1');
        CREATE TABLE snk (product_id BIGINT, order_user_cnt BIGINT, order_cnt BIGINT, total_sum BIGINT)
          WITH ('connector'='filesystem', 'path'='{out}', 'format'='debezium-json');
        INSERT INTO snk
        SELECT product_id, COUNT(DISTINCT user_id), COUNT(order_id), SUM(num) FROM (
          SELECT * FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY order_id ORDER BY proctime ASC) AS row_num FROM orders)
          WHERE row_num = 1) GROUP BY product_id;""",
    "join": """
        CREATE TABLE orders (order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT)
          WITH ('connector'='filesystem', 'path'='{data}/orders', 'format'='json', 'source.max-files-per-trigger'='1');
        CREATE TABLE logistics (order_id BIGINT, target STRING)
          WITH ('connector'='filesystem', 'path'='{data}/logistics', 'format'='json',
                'source.max-files-per-trigger'='1');
        CREATE TABLE snk (order_id BIGINT, user_id BIGINT, num INT, target STRING)
          WITH ('connector'='filesystem', 'path'='{out}', 'format'='json');
        INSERT INTO snk SELECT /*+ STATE_TTL('o'='7 d', 'l'='1 d') */ o.order_id, o.user_id, o.num, l.target
        FROM orders o JOIN logistics l ON o.order_id = l.order_id;""",
}


def make_input(folder: Path, files: int, rows: int, seed: int) -> None:
    """Orders with one tenth of repeated ids, and one logistics row per order, in ``files`` files each."""
    rng = random.Random(seed)
    last = 0
    for part in range(files):
        lines, places = [], []
        for _ in range(rows):
            if last and rng.random() < 0.1:
                order = rng.randint(1, last)
            else:
                last += 1
                order = last
                places.append(json.dumps({"order_id": order, "target": f"city{rng.randint(0, 499)}"}))
            lines.append(
                json.dumps(
                    {
                        "order_id": order,
                        "user_id": rng.randint(1, 5000),
                        "product_id": rng.randint(1, 200),
                        "num": rng.randint(1, 100),
                    }
                )
            )
        rng.shuffle(places)
        for name, content in (("orders", lines), ("logistics", places)):
            path = folder / name / f"part-{part:03d}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(content) + "\n")
            os.utime(path, (1_700_000_000 + part, 1_700_000_000 + part))


def start(script: Path, checkpoint: Path, log: Path) -> subprocess.Popen[bytes]:
    """The query as a user starts it, in a process group of its own."""
    command = [sys.executable, "-m", "cli", "sql", "-f", str(script), "-D", f"execution.checkpointing.dir={checkpoint}"]
    with log.open("ab") as out:
        return subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)


def batches(checkpoint: Path, kind: str) -> int:
    """Micro-batches planned (``offsets``) or finished (``commits``) so far."""
    folder = checkpoint / "spark" / kind
    return sum(p.name.isdigit() for p in folder.iterdir()) if folder.is_dir() else 0


def result(folder: Path) -> Counter[str]:
    """Rows of the sink's files; changes are folded."""
    rows: Counter[str] = Counter()
    for path in folder.glob("part-*"):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if "op" in event:
                for side, sign in (("before", -1), ("after", 1)):
                    if event[side] is not None:
                        rows[json.dumps(event[side])] += sign
            else:
                rows[line] += 1
    return Counter({row: n for row, n in rows.items() if n})


def run(name: str, kills: int, work: Path, data: Path, rng: random.Random) -> tuple[Counter[str], list[str]]:
    """The result of a query with ``kills`` kills, and what was in progress at each."""
    folder = work / f"{name}-{kills}"
    folder.mkdir()
    script, checkpoint, out = folder / "query.sql", folder / "checkpoint", folder / "out"
    script.write_text(QUERIES[name].format(data=data, out=out))
    moments: list[str] = []
    while True:
        planned = batches(checkpoint, "offsets")
        process = start(script, checkpoint, folder / "log")
        while len(moments) < kills and process.poll() is None and batches(checkpoint, "offsets") <= planned:
            time.sleep(0.01)
        if len(moments) < kills and process.poll() is None:
            time.sleep(rng.random() * 1.2)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            done, begun = batches(checkpoint, "commits"), batches(checkpoint, "offsets")
            moments.append(f"{done} finished, {begun - done} in hand")
            continue
        if process.wait() != 0:
            raise SystemExit(f"{name} failed:\n{(folder / 'log').read_text()[-3000:]}")
        return result(out), moments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--files", type=int, default=12)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--query", choices=QUERIES, action="append")
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="stateplan-kill-"))
    data = work / "data"
    make_input(data, args.files, args.rows, args.seed)
    rng = random.Random(args.seed)
    failed = False
    try:
        for name in args.query or list(QUERIES):
            whole, _ = run(name, 0, work, data, rng)
            killed, moments = run(name, args.kills, work, data, rng)
            for n, moment in enumerate(moments, 1):
                print(f"{name:6} kill {n:2}: micro-batches {moment}")
            lost, doubled = sum((whole - killed).values()), sum((killed - whole).values())
            failed |= whole != killed or len(moments) < args.kills
            print(
                f"{name:6} {sum(whole.values())} rows without interruption, {sum(killed.values())} with "
                f"{len(moments)} kills; "
                f"missing {lost}, too many {doubled}: {'identical' if whole == killed else 'DIFFERENT'}",
                flush=True,
            )
    finally:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
