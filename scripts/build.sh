#!/usr/bin/env bash
# Builds the wheel and the sdist into a folder (dist), and beside them muntin.cdx.json, a CycloneDX bill of materials:
# the packages that uv.lock pins, with their addresses and hashes. `make build` calls it.
set -euo pipefail
cd "$(dirname "$0")/.."

folder="${1:-dist}"
.venv/bin/uv build --quiet --no-build-isolation --python .venv/bin/python --clear --out-dir "$folder"
.venv/bin/uv export --quiet --frozen --all-extras --no-dev --format cyclonedx1.5 --preview-features sbom-export \
    --output-file "$folder/muntin.cdx.json" >/dev/null
ls "$folder"
