#!/bin/sh
# Prints the Python to use on standard output, after checking Python >= 3.11 and Java >= 17.
# PYTHON names the interpreter to use; JAVA_HOME, where set, names the Java.
set -eu

python=
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    found=$("${PYTHON:-python3}" --version 2>/dev/null | sed -n '1s/^Python [0-9]/&/p')
    echo "stateplan needs Python 3.11 or newer, found ${found:-none}${PYTHON:+ in $PYTHON}:" \
        "install it (Debian, Ubuntu: apt-get install python3.11 python3.11-venv; macOS: brew install python@3.11)" \
        "and say: make setup PYTHON=python3.11" >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    echo "stateplan needs Python's venv module: install it (Debian, Ubuntu: apt-get install python3-venv)" >&2
    exit 1
fi

java=java
if [ -n "${JAVA_HOME:-}" ]; then java=$JAVA_HOME/bin/java; fi
banner=$("$java" -version 2>&1 | grep -m 1 ' version "' || true)
major=$(printf '%s\n' "$banner" | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p')
if [ "${major:-0}" -lt 17 ]; then
    echo "stateplan needs Java 17 or newer (Spark runs on it), found ${banner:-none}: install it" \
        "(Debian, Ubuntu: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17)" \
        "or set JAVA_HOME to one" >&2
    exit 1
fi
command -v "$python"
