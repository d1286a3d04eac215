#!/bin/sh
# Years of history go into a lakehouse beside a live cluster: the first run takes what is there, the next ones what is
# new. Here a log "grows" by the segments that the broker wrote since.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xJf "$here/../../samples/timestamps-v2-4.4.0.tar.xz" -C "$work"
mkdir "$work/later"
mv "$work/logdir/flat-0"/00000000000000000126.* "$work/later"

count="select count(*) as rows, max(\"offset\") as newest from records where topic = 'flat'"
loglake run "$work/logdir" --topic flat --high-watermark log-end --lake "$work/lake"
loglake query "$work/lake" "$count"

mv "$work/later"/* "$work/logdir/flat-0"
loglake run "$work/logdir" --topic flat --high-watermark log-end --lake "$work/lake"
loglake query "$work/lake" "$count"
