#!/bin/sh
# Makes .venv with the package and everything that its tests need, at the versions of constraints.txt.
set -eu
cd "$(dirname "$0")/.."
if ! "$PYTHON" -m venv .venv; then
    # Debian keeps venv in a package of its own.
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && apt-get install -y -qq python3-venv
        "$PYTHON" -m venv .venv
    else
        echo "Python cannot make a virtual environment: install its venv module (Debian: python3-venv)." >&2
        exit 1
    fi
fi
pip="env PIP_DISABLE_PIP_VERSION_CHECK=1 .venv/bin/python -m pip install --quiet --constraint constraints.txt"
# torch first and pinned: an unpinned one may bring gigabytes that a CPU has no use for.
$pip torch hatchling editables
$pip --no-build-isolation --editable '.[dev]'
# Tests of the explorer look at it with a real browser; without one they are skipped, and say so.
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! command -v chromium >/dev/null; then
    { apt-get update -qq && apt-get install -y -qq chromium; } ||
        echo "Chromium could not be installed: tests of the explorer in a browser will be skipped." >&2
fi
