"""The JVM is started with its settings in a file: its command line, which all users of a machine see, has none."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stateplan.common.errors import RunError
from stateplan.runtime.spark.launch import _settings_file
from stateplan.runtime.spark.session import known_settings

SETTINGS = {
    "spark.app.name": "my job: a=b",
    "spark.hadoop.fs.s3a.secret.key": "p#w!\\d=:",
    "spark.odd key:=": " begins with a blank",
    "spark.java": "-Dx=1 -Dy='2 3'",
    "spark.lines": "a\nb\tc\r",
    "spark.ü": "é\u2028",
    "spark.empty": "",
}


def test_the_file_is_the_users_own_and_goes() -> None:
    with _settings_file({"spark.a": "b"}, ["--master", "local", "pyspark-shell"]) as arguments:
        flag, name, *rest = shlex.split(arguments)
        assert flag == "--properties-file"
        assert rest == ["--load-spark-defaults", "--master", "local", "pyspark-shell"]
        assert os.stat(name).st_mode & 0o777 == 0o600
        assert Path(name).read_text() == "spark.a=b\n"
    assert not Path(name).exists()


@pytest.mark.parametrize("form", ["--properties-file {}", "--properties-file={}"])
def test_a_file_that_the_user_names_stays_in_force(form: str, tmp_path: Path) -> None:
    theirs = tmp_path / "my settings"
    theirs.write_text("spark.theirs true")
    user_arguments = shlex.split(f"{form.format(shlex.quote(str(theirs)))} pyspark-shell")
    with _settings_file({"spark.a": "b"}, user_arguments) as arguments:
        flag, name, *rest = shlex.split(arguments)
        assert (flag, rest) == ("--properties-file", ["pyspark-shell"])
        assert Path(name).read_text() == "spark.theirs true\nspark.a=b\n"


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"PYSPARK_SUBMIT_ARGS": '--conf "a=b'}, "PYSPARK_SUBMIT_ARGS cannot be read: no closing quotation"),
        (
            {"PYSPARK_GATEWAY_PORT": "abc", "PYSPARK_GATEWAY_SECRET": "x"},
            "PYSPARK_GATEWAY_PORT is 'abc', and PYSPARK_GATEWAY_SECRET is set",
        ),
        ({"PYSPARK_GATEWAY_PORT": "1234"}, "PYSPARK_GATEWAY_PORT is '1234', and PYSPARK_GATEWAY_SECRET is missing"),
    ],
)
def test_an_environment_without_sense(variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_SECRET", raising=False)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    with pytest.raises(RunError) as raised:
        known_settings()
    assert (raised.value.code, raised.value.hint) == ("RUN011", "")
    assert raised.value.message == f"Spark does not start: {message}"


@pytest.mark.spark
def test_java_reads_back_every_setting(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    with _settings_file(SETTINGS, ["pyspark-shell"]) as arguments:
        found = jvm.java.util.Properties()
        utf8 = jvm.java.nio.charset.StandardCharsets.UTF_8
        file = jvm.java.io.File(shlex.split(arguments)[1])
        found.load(jvm.java.io.InputStreamReader(jvm.java.io.FileInputStream(file), utf8))
    assert {key: found.getProperty(key) for key in found.stringPropertyNames()} == SETTINGS


@pytest.mark.spark
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_command_line_of_the_jvm_tells_no_settings(spark: SparkSession) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    pid = jvm.java.lang.ProcessHandle.current().pid()
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    assert "org.apache.spark.deploy.SparkSubmit" in words
    assert "--conf" not in words
    told = spark.sparkContext.getConf().get("spark.sql.streaming.stateStore.providerClass")
    assert told is not None and not any(told in word for word in words)
