"""Workers get our packages as files, without what an installation announces: the executor hands it to their tasks."""

from __future__ import annotations

from functools import partial

import pytest
import snappy

from logcore.records.compression import XERIAL_HEADER, Codec, compress
from logcore.records.snappy_encoder import compressed_block, use_library
from spark_jobs.engine.snappy_library import load_snappy_java
from spark_jobs.engine.spark_executor import SparkExecutor

pytestmark = pytest.mark.spark

TEXT = " ".join(str(number * number) for number in range(500))
"""Of which snappy-java and python-snappy make different blocks."""


def test_a_workers_snappy_has_the_bytes_of_a_broker(spark):
    done = SparkExecutor(spark).run(partial(compress, Codec.SNAPPY), [TEXT.encode(), TEXT[:9].encode()])
    use_library(load_snappy_java)
    for stored, text in zip(done, (TEXT, TEXT[:9]), strict=True):
        block = compressed_block(text.encode())
        assert stored == XERIAL_HEADER + len(block).to_bytes(4, "big") + block
    assert compressed_block(TEXT.encode()) != bytes(snappy.compress(TEXT.encode()))
