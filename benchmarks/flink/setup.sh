#!/bin/sh
# Fetches Flink 2.3.0 (330 MB, from the Python package apache-flink-libraries) into dist/ and compiles the harness into
# classes/. Both folders are ignored by git. Needs pip and javac (a JDK). PYTHON names the interpreter whose pip is used.
set -eu
cd "$(dirname "$0")"
java_home=${JAVA_HOME:+$JAVA_HOME/bin/}
command -v "${java_home}javac" >/dev/null || { echo "no javac: install a JDK" >&2; exit 1; }
if [ ! -d dist/lib ]; then
    rm -rf dist
    "${PYTHON:-python3}" -m pip download --quiet --disable-pip-version-check --no-deps --dest dist \
        apache-flink-libraries==2.3.0 >&2
    "${PYTHON:-python3}" - <<'PY'
import pathlib, zipfile
wheel = next(pathlib.Path("dist").glob("*.whl"))
partial = pathlib.Path("dist/partial")
partial.mkdir()
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        if name.startswith("pyflink/lib/") and name.endswith(".jar"):
            (partial / pathlib.PurePath(name).name).write_bytes(archive.read(name))
partial.rename("dist/lib")
wheel.unlink()
PY
fi
mkdir -p classes
"${java_home}javac" -nowarn -cp "dist/lib/*" -d classes src/Harness.java
