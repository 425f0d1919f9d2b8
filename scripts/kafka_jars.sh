#!/usr/bin/env bash
# Fetches with Maven what the tests of Kafka run: a broker, and Spark's Kafka connector.
# Usage: kafka_jars.sh FOLDER SPARK_VERSION
set -euo pipefail
folder="$(realpath -m "$1")" spark="$2" scala=2.13 kafka=4.1.1
mkdir -p "$folder"

# The broker and all that it needs: a folder of jars, whole or not at all.
fetch() {
    local made
    made="$(mktemp -d "$folder/.fetch.XXXXXX")"
    cat >"$made/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_$scala</artifactId>
<version>$kafka</version></dependency></dependencies></project>
POM
    mvn --quiet --batch-mode --strict-checksums --file "$made/pom.xml" dependency:copy-dependencies \
        "-DoutputDirectory=$made/jars" >&2
    mv "$made/jars" "$folder/kafka"
    rm -rf "$made"
}

if ! compgen -G "$folder/kafka/kafka_$scala-*.jar" >/dev/null; then
    fetch
fi

# The connector is built with each Spark, but not every repository has every release of every part of
# it. Older parts of the same Spark work as well, which the tests themselves then show.
newest() {
    local name="$1" version
    for version in "$spark" 4.2.0 4.1.1 4.0.1 4.0.0; do
        if copy "org.apache.spark:${name}_$scala:$version"; then
            echo "services: $name $version" >&2
            return
        fi
    done
    echo "services: Maven finds no $name." >&2
    return 1
}
copy() {
    mvn --quiet --batch-mode --strict-checksums dependency:copy "-Dartifact=$1" "-DoutputDirectory=$made" >/dev/null 2>&1
}

if ! compgen -G "$folder/kafka-connector/spark-sql-kafka-*.jar" >/dev/null; then
    made="$(mktemp -d "$folder/.fetch.XXXXXX")"
    cd "$made" # Maven reads no other project's pom there
    newest spark-sql-kafka-0-10
    newest spark-token-provider-kafka-0-10
    newest spark-avro
    copy org.apache.kafka:kafka-clients:3.9.1
    copy org.apache.commons:commons-pool2:2.12.0
    mv "$made" "$folder/kafka-connector"
fi
