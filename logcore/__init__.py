"""Kafka's log on disk, as a library: bytes in, values out.

`records` says what a batch is, `segments` what a segment and its side files are, `logs` what a partition's log means,
`columns` turns records into Arrow, `storage` is the only place that opens a file. There is no Spark, no scheduler and
no clock in here, and importing the package imports nothing else: codecs and Arrow are loaded by the modules that
use them.
"""

__version__ = "0.1.0"
