#!/bin/sh
# Runs the quick tests with the lowest versions that pyproject.toml allows, in .venv-lowest.
set -eu
cd "$(dirname "$0")/.."
"$PYTHON" -m venv .venv-lowest
.venv/bin/python tools/lowest_versions.py >.venv-lowest/versions.txt
pip="env PIP_DISABLE_PIP_VERSION_CHECK=1 .venv-lowest/bin/python -m pip install --quiet"
$pip --requirement .venv-lowest/versions.txt
$pip --no-deps --no-build-isolation --editable .
unset TIMEPLEX_DATA # the benchmarks are for make test
# What old versions say about newer ones (a deprecation) is not ours to mend; what documents show is as pinned.
# The explorer needs newer libraries than the rest may have (its tests run in make test).
.venv-lowest/bin/python -m pytest -n 2 -m "not slow" -k "not timeplex.serve" --ignore tests/serve \
    -W default::DeprecationWarning -W default::FutureWarning \
    --ignore tests/test_repository.py --ignore tests/test_docs.py --ignore tests/test_doc_numbers.py
