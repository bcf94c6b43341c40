#!/bin/sh
# The demo: what is in the sample KB, and how a table with errors becomes a KB.
set -eu
cd "$(dirname "$0")/.."
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

say() { printf '\n\033[1m── %s\033[0m\n\n' "$1"; }
run() { printf '$ %s\n' "$*"; "$@"; }

say "A temporal KB of real facts comes with the package: heads of state, lives, prizes, games"
run timeplex stats sample

say "Your own table: examples/careers.csv has errors in it; nothing is lost silently"
run timeplex import examples/careers.csv -o "$here/careers.kb" --subject person --relation role --object organisation

say "The same, split for training; what leaks from train into test is reported"
run timeplex split "$here/careers.kb" -o "$here/careers-split.kb" --seed 1

say "Next: your own file"
echo 'timeplex import FILE.csv -o my.kb --subject COLUMN --relation COLUMN --object COLUMN --begin COLUMN --end COLUMN'
