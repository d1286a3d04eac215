"""Planted into the decoders of keys and values, and into what analysts read."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

JSON_BLOCKS = "tests/unit/logcore/values/json/test_json_blocks.py"
AVRO = "tests/unit/logcore/values/avro/test_avro_values.py"
PROTOBUF = "tests/unit/logcore/values/protobuf/test_protobuf_values.py"
AVRO_BLOCKS = "tests/unit/logcore/values/avro/test_avro_blocks.py"
PROTOBUF_BLOCKS = "tests/unit/logcore/values/protobuf/test_protobuf_blocks.py"
QUERY = "tests/jobs/test_query.py"
REGISTRY = "tests/unit/spark_jobs/decode/test_registry_address.py"

FAULTS = (
    Fault(
        "numbers in JSON text are rounded",
        "logcore/values/json/fragment.py",
        "            return Fragment(value)",
        "            return Fragment(float(value))",
        ("tests/unit/logcore/values/json/test_json_text.py", "-k", "stay_exact"),
    ),
    Fault(
        "the JSON kernel takes the second of two equal keys",
        "logcore/columns/kernels/parsing/json_rows.py",
        "            if stack[top + LEVEL_SEEN] & bit:\n",
        "            if False and stack[top + LEVEL_SEEN] & bit:\n",
        (JSON_BLOCKS, "-k", "beside_others"),
    ),
    Fault(
        "the JSON kernel takes two equal keys that the schema lacks",
        "logcore/columns/kernels/parsing/json_rows.py",
        "            if place == size:\n                return False\n",
        "            if place > size:\n                return False\n",
        (JSON_BLOCKS, "-k", "beside_others"),
    ),
    Fault(
        "the JSON kernel takes seven digits of a second for microseconds",
        "logcore/columns/kernels/parsing/json_tokens.py",
        "            if digits < 6:\n",
        "            if digits < 7:\n",
        (JSON_BLOCKS, "-k", "below_microseconds"),
    ),
    Fault(
        "credentials of a schema registry follow to another place",
        "spark_jobs/decode/schema_sources.py",
        " and _origin(newurl) == _origin(req.full_url):\n",
        ":\n",
        (REGISTRY, "-k", "another_port"),
    ),
    Fault(
        "a password in the policies is shown",
        "spark_jobs/policies/policies_file.py",
        '            self._refuse(node, f"{name} is {error}")\n',
        '            self._refuse(node, f"{name} is {node.value!r}: {error}")\n',
        ("tests/unit/spark_jobs/policies/test_policies_file.py", "-k", "without_an_address_or_a_place"),
    ),
    Fault(
        "the JSON kernel takes a map with two equal keys",
        "logcore/columns/kernels/parsing/json_rows.py",
        "                if not is_new_key(source, nodes, fields, node, index, item):\n",
        "                if item < 0 and not is_new_key(source, nodes, fields, node, index, item):\n",
        (JSON_BLOCKS, "-k", "map_is_the_same"),
    ),
    Fault(
        "the JSON kernel ends a map as an array",
        "logcore/columns/kernels/parsing/json_rows.py",
        "            elif character == (125 if nodes[node * NODE + KEYED] else 93):\n",
        "            elif character == 125 or character == 93:\n",
        (JSON_BLOCKS, "-k", "map_is_the_same"),
    ),
    Fault(
        "the JSON kernel ignores what follows the document",
        "logcore/columns/kernels/parsing/json_rows.py",
        "WHOLE if position == end else DOUBT",
        "WHOLE",
        (JSON_BLOCKS, "-k", "beside_others"),
    ),
    Fault(
        "a kernel keeps the items of a row that it doubts",
        "logcore/columns/kernels/parsing/scopes.py",
        "                    store64(scopes_bytes, scope * SCOPE_SIZE + SCOPE_COUNT, saved[scope])\n",
        "                    store64(saved_bytes, scope, saved[scope])\n",
        (JSON_BLOCKS, "-k", "beside_others"),
    ),
    Fault(
        "the JSON kernel accepts any bytes as text",
        "logcore/columns/kernels/parsing/json_tokens.py",
        "            if is_wide and not is_utf8(source, begun, position):",
        "            if False and not is_utf8(source, begun, position):",
        (JSON_BLOCKS, "-k", "beside_others"),
    ),
    Fault(
        "numbers with many digits are rounded twice",
        "logcore/columns/kernels/parsing/json_tokens.py",
        "_EXACT = 1 << 53",
        "_EXACT = 1 << 62",
        (JSON_BLOCKS, "-k", "beside_others"),
    ),
    Fault(
        "bytes after an Avro value are ignored",
        "logcore/values/avro/avro_decoder.py",
        "        if cursor.left:\n",
        "        if False and cursor.left:\n",
        (AVRO, "-k", "shift_no_row"),
    ),
    Fault(
        "the Avro kernel ignores bytes after the value",
        "logcore/columns/kernels/parsing/avro_rows.py",
        "WHOLE if position == end else DOUBT",
        "WHOLE",
        (AVRO_BLOCKS, "-k", "shift_no_row"),
    ),
    Fault(
        "the Avro kernel does not compare the size that a block states",
        "logcore/columns/kernels/parsing/avro_rows.py",
        "if stop != _NO_BLOCK and position != stop:",
        "if False and position != stop:",
        (AVRO_BLOCKS, "-k", "beside_others"),
    ),
    Fault(
        "a kernel keeps two entries of a map with one key",
        "logcore/columns/kernels/parsing/scopes.py",
        "            if values[earlier] == own:\n                return False\n",
        "            if values[earlier] == own:\n                return True\n",
        (PROTOBUF_BLOCKS, "-k", "beside_others"),
    ),
    Fault(
        "the Avro kernel does not compare a decimal with its number of digits",
        "logcore/columns/kernels/parsing/avro_rows.py",
        "            if not _is_below(high, low,",
        "            if False and not _is_below(high, low,",
        (AVRO_BLOCKS, "-k", "beside_others"),
    ),
    Fault(
        "the Protobuf kernel reads a message in two parts, whose oneof it does not compare",
        "logcore/columns/kernels/parsing/protobuf_rows.py",
        "        if is_again:\n            return nb.int64(DOUBT)\n",
        "",
        (PROTOBUF_BLOCKS, "-k", "beside_others"),
    ),
    Fault(
        "the Protobuf kernel leaves absent fields as the memory was before",
        "logcore/columns/kernels/parsing/protobuf_rows.py",
        "            if seen != (nb.int64(1) << count) - 1:",
        "            if False and seen != (nb.int64(1) << count) - 1:",
        (PROTOBUF_BLOCKS, "-k", "beside_others"),
    ),
    Fault(
        "the Protobuf kernel keeps two members of a oneof",
        "logcore/columns/kernels/parsing/protobuf_rows.py",
        "        if seen & fields[field + FIELD_OTHERS]:",
        "        if False and seen & fields[field + FIELD_OTHERS]:",
        (PROTOBUF_BLOCKS, "-k", "beside_others"),
    ),
    Fault(
        "Protobuf text that another one replaces may have any bytes",
        "logcore/values/protobuf/protobuf_decoder.py",
        "            self._message.FromString(body)\n",
        "            pass\n",
        (PROTOBUF, "-k", "named_with_its_place"),
    ),
    Fault(
        "a query may open files",
        "spark_jobs/lake_commands/query/connection.py",
        "set enable_external_access = false",
        "select 1",
        (QUERY, "-k", "mistake_in_the_sql"),
    ),
)
