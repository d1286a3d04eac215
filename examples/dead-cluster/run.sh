#!/bin/sh
# A cluster that will never start again: its log directory becomes tables, and every offset is accounted for.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xJf "$here/../../samples/transactions-4.4.0.tar.xz" -C "$work"

loglake run "$work/logdir" --lake "$work/lake" || [ $? -eq 1 ] # transactions that nobody will end are a warning
loglake query "$work/lake" "select state, count(*) as ranges, sum(end_offset - start_offset) as offsets
    from offset_ledger group by state order by state"
loglake verify "$work/lake" || [ $? -eq 1 ]
