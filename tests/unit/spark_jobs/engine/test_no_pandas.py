"""Arrow loads without pandas, and makes data frames nevertheless."""

from __future__ import annotations

import subprocess
import sys

from tests.daemons import WAIT_SECONDS

PROGRAM = """
import sys
from spark_jobs.prestart import load_arrow
load_arrow()
import pyarrow as pa
import pyarrow.dataset
table = pa.table({"number": [1, 2]})
print([pa.scalar(1).as_py(), pa.array(["a"]).to_pylist()], "pandas" in sys.modules)
print(table.to_pandas()["number"].tolist(), pa.Table.from_pandas(table.to_pandas()).to_pydict())
"""


def test_arrow_is_loaded_without_pandas_and_makes_data_frames_later() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    assert done.stdout.splitlines() == ["[1, ['a']] False", "[1, 2] {'number': [1, 2]}"], done.stderr
