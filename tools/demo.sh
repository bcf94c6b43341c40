#!/bin/sh
# The demo: a model trained on real facts, who and when with reasons, dates without training, the errors of a KB found.
# Under 3 minutes.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
rm -rf "$root/demo"
mkdir "$root/demo"
cd "$root/demo"

say() { printf '\n\033[1m── %s\033[0m\n\n' "$1"; }
run() { printf '$ %s\n\n' "$*"; "$@"; }

say "1. Train: 4,483 real facts about heads of state, lives, prizes and games come with the package"
run timeplex train sample -o run

say "2. Is it any good? On facts that it has not seen, beside simple baselines"
run timeplex evaluate run --filter per-instant

say "3. Who was head of state of Argentina from 2007 to 2015? (A test fact: the model was not shown it)"
run timeplex rank run --object Argentina --relation headOfState --at 2007..2015 -k 3 --explain

say "4. When was Gerhard Schröder head of government of Germany? (A test fact, too)"
run timeplex when run "Gerhard Schröder" headOfGovernment Germany --explain --plot when.png

say "5. Without training: three facts are hidden in a copy of these, and asked for by the patterns of the others"
run python ../tools/without.py sample hidden.csv "Italy, won, FIFA World Cup, 1982" \
    "Los Angeles, hosted, Summer Olympics, 1984" "Helmut Kohl, headOfGovernment, Germany, 1982"
run timeplex import hidden.csv -o hidden.kb
run timeplex when hidden.kb Italy won "FIFA World Cup" --explain
run timeplex when hidden.kb "Los Angeles" hosted "Summer Olympics" --explain
run timeplex when hidden.kb "Helmut Kohl" headOfGovernment Germany --explain

say "6. What is wrong in a KB? In a copy of these facts, one in a hundred has got wrong dates"
run python ../tools/with_errors.py sample copy.csv
run timeplex audit copy.csv --limit 5 --html findings.html

say "All of this is in demo/: look at when.png and findings.html, and ask demo/run yourself. Next, your own table:"
cat <<'NEXT'
timeplex import FILE.csv -o my.kb        name the columns with --subject, --relation, --object, --begin, --end
timeplex audit my.kb                     what is wrong in it
timeplex train my.kb -o runs/my          learn from it
timeplex fill runs/my FILE.csv -o filled.csv

docs/quickstart.md goes through this step by step.
NEXT
