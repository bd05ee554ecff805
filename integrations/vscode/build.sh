#!/bin/sh
# Makes build/vscode/stateplan.vsix of these sources and the packages of package-lock.json.
set -eu
cd "$(dirname "$0")"
command -v npm >/dev/null || { echo "build.sh: npm is not installed" >&2; exit 1; }
target="$(cd ../.. && pwd)/build/vscode"
rm -rf "$target"
mkdir -p "$target"
cp -- *.json *.js *.md LICENSE .vscodeignore "$target"
cd "$target"
npm ci --silent --ignore-scripts --no-audit --no-fund
npm rebuild --silent esbuild
npm run --silent package
echo "$target/stateplan.vsix"
