#!/bin/sh
# Makes .venv from the lock file: needs only Python >= 3.11. Run by make; a second call is a no-op.
set -eu
cd "$(dirname "$0")/.."
venv=.venv
say() { printf '%s\n' "$*" >&2; }

find_python() {
    for name in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
        path=$(command -v "$name" 2>/dev/null) || continue
        if "$path" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            printf '%s' "$path"
            return
        fi
    done
    say "batchline needs Python 3.11, 3.12 or 3.13; none was found on the PATH (set PYTHON=/path/to/python to name one)"
    exit 1
}

python=$(find_python)
# A Python that was upgraded or moved away leaves a venv that cannot start: make it anew.
if ! "$venv/bin/python" -c '' 2>/dev/null; then
    say "making $venv with $("$python" --version)"
    rm -rf "$venv"
    if ! "$python" -m venv "$venv"; then
        rm -rf "$venv"
        say "this Python cannot make virtual environments: install its venv module (Debian: apt-get install python3-venv)"
        exit 1
    fi
fi
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r scripts/uv.lock
say "installing the locked packages (about a minute and 1.6 GB the first time)"
# The certificates of this machine, as pip uses them: a registry may be behind a company's own.
"$venv/bin/uv" pip sync --system-certs --quiet --compile-bytecode --python "$venv/bin/python" --require-hashes requirements.lock
"$venv/bin/uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation --editable .
touch "$venv/.ready"
