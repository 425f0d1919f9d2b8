#!/usr/bin/env bash
# Fetches what the tests of object stores run: an S3 server (Go builds it), and Hadoop's client for S3
# (Maven). The client is that of the Hadoop inside of the Spark that uv.lock pins.
# Usage: s3.sh FOLDER
set -euo pipefail
folder="$(realpath -m "$1")/s3" hadoop=3.5.0 server=github.com/versity/versitygw/cmd/versitygw@v1.8.0
mkdir -p "$folder"

if [ ! -x "$folder/versitygw" ]; then
    if ! command -v go >/dev/null; then
        echo "services: Go isn't here to build an S3 server: tests of object stores are skipped." >&2
        exit 1
    fi
    made="$(mktemp -d "$folder/.build.XXXXXX")"
    # Without optimizations it is built in half of the time.
    (cd "$made" && GOBIN="$made" CGO_ENABLED=0 go install -gcflags='all=-N -l' "$server" >&2)
    mv "$made/versitygw" "$folder/versitygw"
    rm -rf "$made"
fi

# Amazon's client comes in one jar of half a gigabyte; these are the parts that Hadoop uses.
if ! compgen -G "$folder/jars/hadoop-aws-*.jar" >/dev/null; then
    made="$(mktemp -d "$folder/.fetch.XXXXXX")"
    part() { echo "<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version>$4</dependency>"; }
    alone="<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    amazon=software.amazon.awssdk
    cat >"$made/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>s3</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
$(part org.apache.hadoop hadoop-aws $hadoop "$alone")
$(part software.amazon.s3.analyticsaccelerator analyticsaccelerator-s3 1.3.1 "$alone")
$(part $amazon s3 2.35.4 "")
$(part $amazon s3-transfer-manager 2.35.4 "")
$(part $amazon sts 2.35.4 "")
</dependencies></project>
POM
    mvn --quiet --batch-mode --strict-checksums --file "$made/pom.xml" dependency:copy-dependencies \
        -DexcludeGroupIds=org.slf4j "-DoutputDirectory=$made/jars" >&2
    rm -rf "$folder/jars"
    mv "$made/jars" "$folder/jars"
    rm -rf "$made"
fi
