#!/usr/bin/env bash
# Installs what tests of other people's systems start: PostgreSQL, and in build/services a Kafka broker with
# Spark's connector for it, and an S3 server with Hadoop's client for it where there is Go to build one. Root on Debian or Ubuntu gets PostgreSQL and Maven with apt-get; elsewhere
# they are looked for, and what is missing is said.
set -euo pipefail
cd "$(dirname "$0")/.."

have_postgres() {
    compgen -G "/usr/lib/postgresql/*/bin/postgres" >/dev/null || command -v postgres >/dev/null
}

# install PACKAGE...: succeeds where apt-get may be used and has them.
install() {
    [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null || return 1
    echo "services: installing $* with apt-get." >&2
    apt-get update >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@" >&2
}

if ! have_postgres && ! { install postgresql && have_postgres; }; then
    echo "services: PostgreSQL isn't here: install it (for instance: sudo apt-get install postgresql)." >&2
    exit 1
fi

if ! command -v mvn >/dev/null && ! { install maven && command -v mvn >/dev/null; }; then
    echo "services: Maven isn't here: install it (for instance: sudo apt-get install maven)." >&2
    exit 1
fi
spark="$(sed -n '/^name = "pyspark"$/{n;s/version = "\(.*\)"/\1/p}' uv.lock)"
JAVA_HOME="$(bash scripts/java.sh)" bash scripts/kafka_jars.sh build/services "$spark"
bash scripts/s3.sh build/services || true
