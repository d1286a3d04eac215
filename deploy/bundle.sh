#!/bin/sh
# Collects what an installation needs, for machines without a network: bundle.sh FOLDER [ENVIRONMENT]
#
#   FOLDER/packages/         wheels: ours, and those of the packages of requirements.lock that it needs on this platform
#   FOLDER/requirements.txt  these packages, with the hashes of the lock, against which they were checked
#   FOLDER/jars/             the jars of deploy/jars.lock
#   FOLDER/install.sh        installs all of it without a network; see deploy/install.sh
#   FOLDER/SHA256SUMS        the digests of all files
#
# It installs the packages from FOLDER at once: into ENVIRONMENT, else into a folder that it deletes again. That shows
# that they are complete, and the resolver of this installation fetches the jars. EXTRAS names other extras than those
# for a server; without `lake` there are no jars. Packages and jars come from where pip and Spark's resolver are
# configured to get them.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: deploy/bundle.sh FOLDER [ENVIRONMENT]" >&2
    exit 64
fi
if [ -e "$1" ] && [ -n "$(ls -A "$1")" ]; then
    echo "bundle: $1 is not empty; name a new folder" >&2
    exit 64
fi
extras=${EXTRAS-lake,postgres,jvm}
python=${PYTHON:-python3}
mkdir -p "$1/packages"
folder=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
environment=${2:-$scratch/environment}

# the entries of the lock whose names are lines of this file
locked() {
    awk -v names="$1" '
        BEGIN { while ((getline name < names) > 0) wanted[name] = 1 }
        /^[a-z0-9]/ { split($1, parts, "=="); keep = parts[1] in wanted }
        keep' "$root/requirements.lock"
}

echo "bundle: our wheel" >&2
printf '%s\n' hatchling packaging pathspec pluggy trove-classifiers uv >"$scratch/tools.names"
locked "$scratch/tools.names" >"$scratch/tools.txt"
"$python" -m venv "$scratch/tools"
tools="$scratch/tools/bin/python"
pip="$tools -m pip --disable-pip-version-check"
$pip install --quiet --no-deps --require-hashes -r "$scratch/tools.txt"
(cd "$root" && "$tools" -m hatchling build -t wheel -d "$folder/packages") >"$scratch/wheel.log" 2>&1 || {
    cat "$scratch/wheel.log" >&2
    exit 3
}

echo "bundle: the packages that it needs" >&2
. "$here/uv_settings.sh"
set --
for extra in $(echo "$extras" | tr , ' '); do set -- "$@" --extra "$extra"; done
(cd "$root" && "$tools" -m uv pip compile --quiet --no-header --no-annotate --no-emit-index-url --no-emit-find-links \
    --python "$tools" -c requirements.lock "$@" pyproject.toml) >"$scratch/resolved"
sed 's/==.*//' "$scratch/resolved" >"$scratch/packages.names"
locked "$scratch/packages.names" >"$folder/requirements.txt"
# some, such as pyspark, have no wheel in a registry: it is built here, from the source with the hash of the lock
$pip wheel --quiet --use-pep517 --no-deps --require-hashes -w "$folder/packages" -r "$folder/requirements.txt"
cp "$here/install.sh" "$folder/install.sh"

sums() {
    (cd "$folder" && find . -type f ! -name SHA256SUMS -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >"$scratch/sums" &&
        mv "$scratch/sums" SHA256SUMS)
}
sums
echo "bundle: an installation from it" >&2
PYTHON="$python" "$folder/install.sh" "$environment"

case ",$extras," in
*,lake,*)
    echo "bundle: the jars" >&2
    mkdir "$folder/jars"
    LOGLAKE_HOME="$scratch/home" "$environment/bin/python" -m spark_jobs.engine.jars >"$scratch/jars"
    while read -r jar; do cp "$jar" "$folder/jars/"; done <"$scratch/jars"
    sums
    ;;
esac
echo "bundle: $folder is complete, $(du -sm "$folder" | cut -f1) MB" >&2
