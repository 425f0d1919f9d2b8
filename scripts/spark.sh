#!/usr/bin/env bash
# Makes ready what the tests need to run on another Spark: .venv-VERSION, with all that uv.lock pins but
# Spark, and the jars of Delta and Iceberg that are made for it (in build/services).
# Usage: spark.sh VERSION; the versions are those of scripts/sparks.
set -euo pipefail
cd "$(dirname "$0")/.."
version="$1" pins="scripts/sparks/$1.txt" venv=".venv-$1"

if [ ! -f "$pins" ]; then
    echo "spark: there is no $pins; give one of $(ls scripts/sparks | sed 's/\.txt$//' | tr '\n' ' ')" >&2
    exit 1
fi

# The releases of Delta and of Iceberg that are made for a Spark.
delta=() iceberg=()
case "$version" in
    4.2.*) delta=(io.delta:delta-spark_4.2_2.13:4.4.0 io.delta:delta-storage:4.4.0) ;;
    4.1.*) delta=(io.delta:delta-spark_4.1_2.13:4.4.0 io.delta:delta-storage:4.4.0)
        iceberg=(org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0) ;;
esac

if [ ! -f "$venv/.synced" ] || [ uv.lock -nt "$venv/.synced" ] || [ "$pins" -nt "$venv/.synced" ]; then
    index="${UV_DEFAULT_INDEX:-${UV_INDEX_URL:-${PIP_INDEX_URL:-$(.venv/bin/pip config get global.index-url 2>/dev/null || true)}}}"
    [ -z "$index" ] || export UV_DEFAULT_INDEX="$index"
    export UV_PYTHON_DOWNLOADS=never
    .venv/bin/uv venv --quiet --allow-existing --python .venv/bin/python "$venv"
    .venv/bin/uv export --quiet --frozen --all-extras --no-emit-project --no-emit-package pyspark \
        --no-emit-package py4j --output-file "$venv/requirements.txt"
    .venv/bin/uv pip install --quiet --python "$venv" --require-hashes -r "$venv/requirements.txt" -r "$pins"
    .venv/bin/uv pip install --quiet --python "$venv" --no-deps --editable .
    touch "$venv/.synced"
fi

# fetch FOLDER ARTIFACT...: a folder of these jars and no others, whole or not at all.
fetch() {
    local jars="build/services/$1" made
    shift
    [ "$(cat "$jars/.artifacts" 2>/dev/null)" != "$*" ] || return 0
    if ! command -v mvn >/dev/null; then
        echo "spark: Maven isn't here to fetch Delta and Iceberg: install it (for instance: sudo apt-get install maven)." >&2
        exit 1
    fi
    mkdir -p build/services
    made="$(realpath "$(mktemp -d "build/services/.fetch.XXXXXX")")"
    for part in "$@"; do
        # Maven reads no other project's pom there.
        (cd "$made" && mvn --quiet --batch-mode --strict-checksums dependency:copy "-Dartifact=$part" "-DoutputDirectory=$made" >&2)
    done
    echo "$*" >"$made/.artifacts"
    rm -rf "$jars"
    mv "$made" "$jars"
}

[ ${#delta[@]} = 0 ] || fetch "delta-$version" "${delta[@]}"
[ ${#iceberg[@]} = 0 ] || fetch "iceberg-$version" "${iceberg[@]}"
