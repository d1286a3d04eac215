#!/bin/sh
# A compacted topic with JSON values becomes a typed table with the newest row of each key.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xJf "$here/../../samples/codecs-v2-4.3.1.tar.xz" -C "$work"
cp "$here/../../samples/codecs-v2-4.3.1.schema.json" "$work/order.schema.json"
cat >"$work/policies.yaml" <<'POLICIES'
topics:
  codec-none:
    decode.key: string
    decode.value: json
    decode.value.schema: order.schema.json
    latest: delete
POLICIES

loglake run "$work/logdir" --topic codec-none --lake "$work/lake" --policies "$work/policies.yaml" || [ $? -eq 1 ]
loglake query "$work/lake" "select key, value.name, value.amount, \"offset\" from latest_codec_2dnone
    where value is not null order by value.amount desc, key limit 3"
