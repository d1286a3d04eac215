"""Planted into what reads remote storage of tiered topics."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

CHUNKS = "tests/unit/logcore/remote/test_chunks.py"
INVENTORY = "tests/unit/logcore/remote/test_inventory.py"
LINEAGE = "tests/unit/logcore/remote/test_lineage.py"

FAULTS = (
    Fault(
        "a chunk may give fewer bytes of the segment than the manifest says",
        "logcore/remote/chunks.py",
        "    if len(content) != chunk.size:\n",
        "    if len(content) > chunk.size:\n",
        (CHUNKS, "-k", "another_size"),
    ),
    Fault(
        "a chunk of a remote segment expands without its limit",
        "logcore/remote/chunks.py",
        "decompress(Codec.ZSTD, content, chunk.size)",
        "decompress(Codec.ZSTD, content, 1 << 30)",
        (CHUNKS, "-k", "expands"),
    ),
    Fault(
        "a manifest is not compared with the size of its object",
        "logcore/remote/chunk_index.py",
        "        if nbytes != self.stored_size:\n",
        "        if nbytes < 0:\n",
        (CHUNKS, "-k", "stored_objects"),
    ),
    Fault(
        "a remote segment counts although an epoch begins elsewhere in its log",
        "logcore/remote/lineage.py",
        "        elif following != _following(own, epoch):\n",
        "        elif following is None:\n",
        (LINEAGE, "-k", "epochs_are_those"),
    ),
    Fault(
        "objects of a partition that the metadata does not name are orphans",
        "logcore/remote/inventory.py",
        "RemoteStatus.UNNAMED if objects.place in places else RemoteStatus.NOT_COVERED",
        "RemoteStatus.UNNAMED",
        (INVENTORY, "-k", "only_where"),
    ),
    Fault(
        "a half copy in remote storage counts",
        "logcore/remote/inventory.py",
        "    is_copied = segment.state is RemoteSegmentState.COPY_FINISHED\n",
        "    is_copied = segment.state <= RemoteSegmentState.COPY_FINISHED\n",
        (INVENTORY, "-k", "decides_what"),
    ),
)
