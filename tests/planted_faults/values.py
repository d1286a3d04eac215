"""Planted into the decoders of keys and values, and into what analysts read."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

JSON_BLOCKS = "tests/unit/logcore/values/json/test_json_blocks.py"
AVRO = "tests/unit/logcore/values/avro/test_avro_values.py"
PROTOBUF = "tests/unit/logcore/values/protobuf/test_protobuf_values.py"
AVRO_BLOCKS = "tests/unit/logcore/values/avro/test_avro_blocks.py"
PROTOBUF_BLOCKS = "tests/unit/logcore/values/protobuf/test_protobuf_blocks.py"
QUERY = "tests/jobs/test_query.py"
VIEWS = "tests/jobs/test_registered_tables.py"
BROKEN_VIEWS = "tests/jobs/test_broken_views.py"
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
        "bytes after the id of an Avro schema are read with a length",
        "logcore/values/evolution/topic_writers.py",
        "self.message, names_schema=True, column=column",
        "self.message, column=column",
        ("tests/unit/logcore/values/wire/test_other_serializers.py", "-k", "no_length_before"),
    ),
    Fault(
        "properties beside $ref are left out",
        "logcore/values/json/references.py",
        "combines = not (isinstance(draft, str) and _EARLIER_DRAFT.search(draft))",
        "combines = False",
        ("tests/unit/logcore/values/json/test_json_schema_forms.py", "-k", "values_equal"),
    ),
    Fault(
        "required beside $ref or inside allOf is left out",
        "logcore/values/json/json_decoder.py",
        "required=each.required or each.name in required)",
        "required=each.required)",
        ("tests/unit/logcore/values/json/test_json_keywords.py", "-k", "required_counts"),
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
        "credentials of a schema registry are in an error",
        "spark_jobs/decode/schema_sources.py",
        "Check the credentials in {self._credentials.place},",
        "Check the credentials in {self._credentials.place}, {self._credentials.authorization},",
        (REGISTRY, "-k", "refuses_a_request"),
    ),
    Fault(
        "a password in the policies is shown",
        "spark_jobs/policies/policies_file.py",
        '            self._refuse(node, f"{name} is {error}")\n',
        '            self._refuse(node, f"{name} is {node.value!r}: {error}")\n',
        ("tests/unit/spark_jobs/policies/test_policies_file.py", "-k", "without_an_address_or_a_place"),
    ),
    Fault(
        "a password decides how rows are decoded",
        "spark_jobs/decode/decoding.py",
        "        return _digest([RULES, *self.key.described, *self.value.described])\n",
        "        login = os.environ.get('REGISTRY_LOGIN')\n"
        "        return _digest([RULES, login, *self.key.described, *self.value.described])\n",
        ("tests/jobs/test_registry_credentials.py", "-k", "another_password"),
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
        "rows that are decoded plainly take the places of others",
        "logcore/values/column.py",
        "    places[block.doubts] = len(bodies) + np.arange(len(block.doubts))\n",
        "    places[block.doubts] = len(bodies) + np.arange(len(block.doubts))[::-1]\n",
        (JSON_BLOCKS, "-k", "damaged_values"),
    ),
    Fault(
        "bytes after an Avro value are ignored",
        "logcore/values/avro/avro_decoder.py",
        "        if cursor.left:\n",
        "        if False and cursor.left:\n",
        (AVRO, "-k", "shift_no_row"),
    ),
    Fault(
        "the size that an Avro block states is not compared",
        "logcore/values/avro/avro_decoder.py",
        "        if end is not None and cursor.position != end:",
        "        if False and cursor.position != end:",
        (AVRO, "-k", "named_with_its_place"),
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
        "a block of one long list decides how much room many rows take",
        "logcore/values/blocks/program.py",
        "min(each * rows, most) + 1 for each",
        "each * rows + 1 for each",
        (PROTOBUF_BLOCKS, "-k", "small_block_of_long_lists"),
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
        "an entry of a Protobuf map without a known symbol has the default",
        "logcore/values/protobuf/protobuf_decoder.py",
        "value.kind.is_closed and _has_unknown_symbol(entry)",
        "value.kind.is_closed and False",
        (PROTOBUF, "-k", "left_out"),
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
    Fault(
        "a damaged table is called a mistake in the SQL",
        "spark_jobs/lake_commands/query/connection.py",
        "            if _CLASS.match(said) and not _UNREAD.match(said):",
        "            if _CLASS.match(said):",
        (QUERY, "-k", "damaged_file"),
    ),
    Fault(
        "two topics have one view",
        "spark_jobs/lake/view/decoded/topic_asset.py",
        '    return "__" if byte == ord("_") else',
        '    return "_" if byte == ord("_") else',
        (QUERY, "-k", "view"),
    ),
    Fault(
        "the first header of a name counts",
        "spark_jobs/lake_commands/query/connection.py",
        "each.key = name)[-1]",
        "each.key = name)[1]",
        (QUERY, "-k", "header"),
    ),
    Fault(
        "one table that cannot be a view ends the query of others",
        "spark_jobs/lake_commands/query/connection.py",
        "                    absent.append(AbsentView(view.name, view.problem(error)))\n",
        "                    raise JobError(view.problem(error)) from error\n",
        (BROKEN_VIEWS, "-k", "list_of_views"),
    ),
    Fault(
        "a query of a table that cannot be a view says that the table does not exist",
        "spark_jobs/lake_commands/query/connection.py",
        "if each.name == unknown[1].lower():",
        "if each.name == unknown[1]:",
        (BROKEN_VIEWS, "-k", "reason_as_its_error"),
    ),
    Fault(
        "views over files show tables with features that hide rows of files",
        "spark_jobs/lake_commands/query/lake_views.py",
        "                if features:\n",
        "                if not features:\n",
        (BROKEN_VIEWS, "-k", "file_of_views and vectors"),
    ),
    Fault(
        "a view that a user made in place of ours is lost",
        "spark_jobs/lake_commands/register/register.py",
        " AND found.comment = ours.one_row",
        "",
        (VIEWS, "-k", "not_lost"),
    ),
    Fault(
        "a far date in a union ends the query",
        "spark_jobs/lake_commands/query/query_command.py",
        "        return None if scalar.value is None else _value(scalar.value)\n",
        "        return scalar.as_py()\n",
        (QUERY, "-k", "iso_8601"),
    ),
    Fault(
        "a query of a view without rows that has a condition is no error",
        "spark_jobs/lake_commands/register/register.py",
        "{'problem' if failed else 'NULL'}::",
        "{'NULL'}::",
        (BROKEN_VIEWS, "-k", "harmed_file_of_records"),
    ),
)
