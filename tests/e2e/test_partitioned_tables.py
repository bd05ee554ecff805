"""A partitioned table on Spark: written into folders, read back, and only the partitions a condition asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment


@pytest.mark.spark
def test_written_and_read(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = TableEnvironment.create({"pipeline.max-parallelism": "2"})
    rows = tmp_path / "rows.json"
    rows.write_text("".join(f'{{"k":{i},"dt":"2024-05-0{i % 3 + 1}","v":"x{i}"}}\n' for i in range(9)))
    columns = "k INT, dt DATE, v STRING"
    session.execute_sql(
        f"CREATE TABLE src ({columns}) WITH ('connector'='filesystem', 'format'='json', 'path'='{rows}')"
    )
    session.execute_sql(
        f"CREATE TABLE days ({columns}) PARTITIONED BY (dt) "
        f"WITH ('connector'='filesystem', 'format'='json', 'path'='{tmp_path / 'days'}')"
    )
    session.execute_sql(f"CREATE TABLE snk ({columns}) WITH ('connector'='print')")
    session.execute_sql("INSERT INTO days SELECT * FROM src WHERE k < 8").wait()
    folders = sorted(p.name for p in (tmp_path / "days").iterdir() if not p.name.startswith("."))
    assert folders == ["dt=2024-05-01", "dt=2024-05-02", "dt=2024-05-03"]
    texts = [p.read_text() for p in (tmp_path / "days" / "dt=2024-05-02").iterdir()]
    assert sorted("".join(texts).splitlines()) == ['{"k":1,"v":"x1"}', '{"k":4,"v":"x4"}', '{"k":7,"v":"x7"}']
    capsys.readouterr()
    session.execute_sql("INSERT INTO snk SELECT * FROM days WHERE dt > DATE '2024-05-01' AND k > 1").wait()
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "+I[2, 2024-05-03, x2]",
        "+I[4, 2024-05-02, x4]",
        "+I[5, 2024-05-03, x5]",
        "+I[7, 2024-05-02, x7]",
    ]
