#!/usr/bin/env bash
# Holds what uv.lock pins against the public database of vulnerabilities. `make audit` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

AUDITOR=pip-audit==2.10.0
venv=build/audit
[ -x "$venv/bin/pip-audit" ] || {
    .venv/bin/python -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$AUDITOR"
}
.venv/bin/uv export --quiet --locked --all-extras --no-emit-project --no-hashes >"$venv/pinned.txt"
"$venv/bin/pip-audit" --requirement "$venv/pinned.txt" --no-deps --disable-pip --strict --progress-spinner off
