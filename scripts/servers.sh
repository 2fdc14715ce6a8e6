#!/bin/sh
# Makes sure the servers that tests talk to are installed. Run by make test; a second call only looks.
# Nothing is started here: tests start their own servers on free ports (tests/servers/).
set -eu
umask 022 # the servers run as an unprivileged user, who must be able to read what is installed
cd "$(dirname "$0")/.."
python=.venv/bin/python
source=tests/servers/azurite
azurite=build/azurite
jars=tests/servers/kafka
kafka=build/kafka
log=build/servers.log
policy=/usr/sbin/policy-rc.d
say() { printf '%s\n' "$*" >&2; }

# Servers live outside a user's PATH on Debian.
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
have() { command -v "$1" >/dev/null || ls /usr/lib/postgresql/*/bin/"$1" >/dev/null 2>&1; }

azurite_ready() {
    [ -f "$azurite/node_modules/azurite/dist/src/blob/main.js" ] && cmp -s "$source/package-lock.json" "$azurite/.installed"
}

kafka_ready() { cmp -s "$jars/jars.sha256" "$kafka/.installed"; }

# The archive is of the jars of this environment.
spark_ready() { [ build/spark.jsa -nt .venv/.ready ]; }

# Prints program:package for each program that is not there.
missing_programs() {
    for pair in initdb:postgresql postgres:postgresql \
        mariadbd:mariadb-server-core mariadb-install-db:mariadb-server-core my_print_defaults:mariadb-client-core \
        redis-server:redis-server mosquitto:mosquitto node:nodejs chromium:chromium; do
        have "${pair%%:*}" || printf '%s\n' "$pair"
    done
    # npm is needed once, to install Azurite.
    azurite_ready || have npm || printf 'npm:npm\n'
}

missing_packages() { missing_programs | sed 's/.*://' | sort -u | tr '\n' ' '; }

# Sets $root to what runs a command as root, or fails.
become_root() {
    root=
    [ "$(id -u)" -eq 0 ] && return
    root='sudo -n'
    $root true 2>/dev/null
}

allow_daemons() {
    if [ -e "$policy.batchline" ]; then
        $root mv -f "$policy.batchline" "$policy"
    elif grep -qs '^# batchline' "$policy"; then
        $root rm -f "$policy"
    fi
}

# Debian asks this file before it starts a daemon; 101 forbids it. Ours forbids only while this script runs, so
# that it does no harm even if a kill -9 leaves it behind.
forbid_daemons() {
    allow_daemons
    trap allow_daemons EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    if [ -e "$policy" ]; then $root mv "$policy" "$policy.batchline"; fi
    $root tee "$policy" >/dev/null <<END
#!/bin/sh
# batchline: no daemon is started while process $$ installs test servers
kill -0 $$ 2>/dev/null && exit 101
[ ! -x $policy.batchline ] || exec $policy.batchline "\$@"
END
    $root chmod 755 "$policy"
}

apt() { $root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1 </dev/null; }

install_packages() {
    say "installing the Debian packages $*"
    forbid_daemons
    # An update may fail for one source of many; whether it was enough, install will tell.
    apt update || :
    apt install --no-install-recommends "$@" || { tail -n 20 "$log" >&2; say "apt-get failed, see $log"; }
    allow_daemons
    # Nor are they to start when the machine boots.
    if have systemctl; then
        for package in "$@"; do $root systemctl --quiet disable "$package" >>"$log" 2>&1 || :; done
    fi
}

install_azurite() {
    say "installing Azurite into $azurite"
    mkdir -p "$azurite"
    rm -f "$azurite/.installed"
    cp "$source/package.json" "$source/package-lock.json" "$azurite/"
    if (cd "$azurite" && npm ci --no-audit --no-fund --ignore-scripts) >>"$log" 2>&1 </dev/null; then
        cp "$source/package-lock.json" "$azurite/.installed"
    else
        tail -n 20 "$log" >&2
        say "npm failed, see $log"
    fi
}

# Only for speed: what they are of starts without them, too.
archive_classes() {
    "$python" -m tests.servers.class_archive "$1" >>"$log" 2>&1 </dev/null ||
        say "made no archive of $1's classes, see $log"
}

# Puts the jars of one configuration of ivy.xml into a directory of its name.
ivy() {
    "$java" -Dbatchline.cache="$PWD/$kafka/cache" -cp "$ivy_path" org.apache.ivy.Main -warn \
        -settings "$jars/ivysettings.xml" -ivy "$jars/ivy.xml" -confs "$1" \
        -retrieve "$PWD/$kafka/$1/[artifact]-[revision].[ext]" -sync
}

fetch_jars() {
    java=$("$python" -c 'import os; from batchline.spark.java import java_home; print(java_home(os.environ) / "bin/java")')
    ivy_path=$("$python" -c 'import os, pyspark; print(os.path.join(os.path.dirname(pyspark.__file__), "jars", "*"))')
    ivy connector && ivy broker && (cd "$kafka" && sha256sum --check --strict --quiet) <"$jars/jars.sha256"
}

install_kafka() {
    say "installing the jars of Kafka and of its connector for Spark into $kafka"
    rm -rf "$kafka"
    mkdir -p "$kafka"
    if (fetch_jars) >>"$log" 2>&1 </dev/null; then
        cp "$jars/jars.sha256" "$kafka/.installed"
        archive_classes kafka
    else
        tail -n 20 "$log" >&2
        say "the jars could not be fetched from Maven Central, or are not those of $jars/jars.sha256: see $log"
    fi
    rm -rf "$kafka/cache"
}

# Says what is still missing, and how to get it. Tests of missing servers are skipped, but never in CI.
report() {
    for pair in $(missing_programs); do say "missing: ${pair%%:*} (Debian package ${pair##*:})"; done
    packages=$(missing_packages)
    [ -z "$packages" ] || say "install with: apt-get install --no-install-recommends $packages"
    azurite_ready || say "missing: Azurite (from npm); install with: scripts/servers.sh"
    kafka_ready || say "missing: Kafka and its connector (from Maven Central); install with: scripts/servers.sh"
    [ "${CI:-}" != true ] || exit 1
    say "tests that need these servers will be skipped"
    exit 0
}

all_there() { [ -z "$(missing_programs)" ] && azurite_ready && kafka_ready; }

if all_there && spark_ready; then exit 0; fi
mkdir -p build
: >"$log"
packages=$(missing_packages)
# shellcheck disable=SC2086 # a list of words
if [ -n "$packages" ] && have apt-get && become_root; then install_packages $packages; fi
# Of what comes over the network the processor sees little: meanwhile it has other work.
if ! spark_ready && [ -x "$python" ]; then archive_classes spark & fi
if ! azurite_ready && have npm; then install_azurite; fi
if ! kafka_ready && [ -x "$python" ]; then install_kafka; fi
wait
all_there || report
