#!/usr/bin/env bash
# Creates .venv and installs what uv.lock pins. `make setup` calls it; UV_VERSION comes from the Makefile.
set -euo pipefail
cd "$(dirname "$0")/.."

: "${UV_VERSION:?run this through make setup}"
export UV_PROJECT_ENVIRONMENT=.venv UV_PYTHON_DOWNLOADS=never
unset VIRTUAL_ENV UV_PYTHON

find_python() {
    local candidate
    for candidate in ${PYTHON:-} python3.11 python3 python3.12 python3.13; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "setup: Python 3.11 or newer is needed; install it, or say make setup PYTHON=/path/to/python3.11." >&2
    return 1
}

# A package index of the machine's own, from uv's settings or pip's; empty means the public one.
machine_index() {
    local index="${UV_DEFAULT_INDEX:-${UV_INDEX_URL:-${PIP_INDEX_URL:-}}}"
    [ -n "$index" ] || index="$(.venv/bin/pip config get global.index-url 2>/dev/null || true)"
    echo "$index"
}

if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    python="$(find_python)"
    rm -rf .venv
    "$python" -m venv .venv
fi
if [ "$(.venv/bin/uv --version 2>/dev/null | cut -d ' ' -f 2)" != "$UV_VERSION" ]; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "uv==$UV_VERSION"
fi

index="$(machine_index)"
if [ -z "$index" ]; then
    .venv/bin/uv sync --locked --all-extras
else
    # The lock names the public index, and uv takes a lock for stale when another is configured:
    # install the same pins by their hashes from the machine's index.
    requirements=.venv/requirements.txt
    .venv/bin/uv export --quiet --frozen --all-extras --no-emit-project --output-file "$requirements"
    UV_DEFAULT_INDEX="$index" .venv/bin/uv pip install --python .venv --require-hashes -r "$requirements"
    UV_DEFAULT_INDEX="$index" .venv/bin/uv pip install --python .venv --no-deps --editable .
fi
