"""Sends lines of standard input to a topic, as ``kcat -P -t TOPIC`` does.

Run as ``python -m examples.stream.produce TOPIC``. The broker is that of the variable ``KAFKA``.
"""

from __future__ import annotations

import os
import sys

from confluent_kafka import Producer


def main(topic: str) -> None:
    producer = Producer({"bootstrap.servers": os.environ["KAFKA"], "linger.ms": 0})
    lines = [line.strip() for line in sys.stdin if line.strip()]
    for line in lines:
        producer.produce(topic, line)
    if producer.flush(20):
        sys.exit(f"the broker at {os.environ['KAFKA']} does not answer")
    print(f"sent {len(lines)} to {topic}")


if __name__ == "__main__":
    main(sys.argv[1])
