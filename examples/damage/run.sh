#!/bin/sh
# A damaged disk: what is lost is named offset by offset, and a copy without the damage is written for a broker.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xJf "$here/../../samples/damaged.tar.xz" -C "$work"

loglake verify "$work/logdir/d-flip-crc-0" || [ $? -eq 2 ]
loglake ledger "$work/logdir/d-flip-crc-0" | tail -n 3
loglake recover "$work/logdir/d-flip-crc-0" --out "$work/new/d-flip-crc-0" --salvage || [ $? -eq 2 ]
loglake verify "$work/new/d-flip-crc-0" || [ $? -eq 2 ] # the two lost offsets stay lost
