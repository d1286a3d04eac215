#!/bin/sh
# Installs a bundle of deploy/bundle.sh without a network: install.sh ENVIRONMENT
# ENVIRONMENT is a new folder for a virtual environment. Run it where the environment is used: it cannot be moved.
set -eu
folder=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
if [ $# -ne 1 ]; then
    echo "usage: install.sh ENVIRONMENT" >&2
    exit 64
fi
if [ -e "$1" ]; then
    echo "install: $1 exists; name a new folder" >&2
    exit 64
fi
if ! (cd "$folder" && sha256sum --check --quiet --strict SHA256SUMS >&2); then
    echo "install: $folder is not as it was made; nothing was installed. Copy it again" >&2
    exit 2
fi
"$python" -m venv "$1"
"$1/bin/python" -m pip --disable-pip-version-check install --quiet --no-index --no-deps "$folder"/packages/*.whl
"$1/bin/python" -m pip --disable-pip-version-check check >&2
if [ -d "$folder/jars" ]; then echo "install: $1/bin/loglake is there; set LOGLAKE_JARS_DIR=$folder/jars" >&2; fi
