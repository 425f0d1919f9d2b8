#!/usr/bin/env bash
# Prints the JAVA_HOME of a Java that Spark can start with (17 or newer); says what to do where there is none.
# Looks at JAVA_HOME, then PATH; root on Debian or Ubuntu gets one installed.
set -euo pipefail

NEEDED=17
too_old=""

# use_java COMMAND: prints the home of that java and succeeds when it is new enough.
use_java() {
    local settings home version
    settings="$("$1" -XshowSettings:properties -version 2>&1)" || return 1
    home="$(sed -n 's/^ *java\.home = //p' <<<"$settings")"
    version="$(sed -n 's/^ *java\.specification\.version = //p' <<<"$settings")"
    version="${version#1.}" # Java 8 calls itself 1.8
    [[ "$version" =~ ^[0-9]+$ ]] || return 1
    if ((version < NEEDED)); then
        too_old="Java $version at $home"
        return 1
    fi
    echo "$home"
}

find_java() {
    if [ -n "${JAVA_HOME:-}" ] && use_java "$JAVA_HOME/bin/java"; then return; fi
    if command -v java >/dev/null && use_java "$(command -v java)"; then return; fi
    return 1
}

install_java() {
    local package
    apt-get update >&2
    for package in "openjdk-$NEEDED-jre-headless" openjdk-21-jre-headless; do
        if DEBIAN_FRONTEND=noninteractive apt-get install -y "$package" >&2; then return; fi
    done
    return 1
}

cure="install Java $NEEDED or newer (for instance: sudo apt-get install openjdk-$NEEDED-jre-headless) or set JAVA_HOME to one, then run this again."
if find_java; then exit; fi
if [ -n "$too_old" ]; then
    echo "java: Spark needs Java $NEEDED or newer and found $too_old: $cure" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ] && command -v apt-get >/dev/null; then
    echo "java: none found, installing it with apt-get." >&2
    if install_java && find_java; then exit; fi
fi
echo "java: Spark needs Java and found none: $cure" >&2
exit 1
