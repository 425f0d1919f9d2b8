#!/usr/bin/env bash
# Holds what uv.lock pins against the public database of vulnerabilities. `make audit` calls it.
# With --if-reachable it only says so where the database doesn't answer, as in CI.
set -euo pipefail
cd "$(dirname "$0")/.."

AUDITOR=pip-audit==2.10.0
venv=build/audit

# audit: prints what the auditor says; ends with 0 only if it has looked, and there is nothing.
audit() {
    [ -x "$venv/bin/pip-audit" ] || {
        .venv/bin/python -m venv "$venv" &&
            "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$AUDITOR"
    } || return
    .venv/bin/uv export --quiet --locked --all-extras --no-emit-project --no-hashes >"$venv/pinned.txt" || return
    "$venv/bin/pip-audit" --requirement "$venv/pinned.txt" --no-deps --disable-pip --strict --progress-spinner off
}

audit 2>&1 | tee build/audit.log && exit
if [ "${1:-}" = --if-reachable ] && ! grep -q '^Found [0-9]* known vulnerabilit' build/audit.log; then
    echo "audit: the database of vulnerabilities wasn't reached, so nothing was compared." >&2
    exit
fi
exit 1
