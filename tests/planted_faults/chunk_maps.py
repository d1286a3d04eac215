"""Planted into what registers and uses chunk maps of remote segments."""

from __future__ import annotations

from tests.planted_faults.fault import Fault

BUCKET = "tests/object_store/test_chunk_maps.py"
CHUNKED = "tests/unit/logcore/storage/remote_tier/test_chunked_segment.py"
KNOWN = "tests/unit/logcore/storage/remote_tier/test_known_manifests.py"
MAPS = "tests/unit/logcore/remote/chunked/test_chunk_map.py"

FAULTS = (
    Fault(
        "the manifest of a segment that is registered with its chunk map is read again",
        "logcore/storage/remote_tier/known_manifests.py",
        "        if known is not None:\n            return known\n",
        "",
        (BUCKET, "-k", "later_runs"),
    ),
    Fault(
        "a chunk map is used for an object with another ETag",
        "logcore/storage/remote_tier/known_manifests.py",
        "ours.etag == log.version and ",
        "",
        (KNOWN, "-k", "another_etag"),
    ),
    Fault(
        "a chunk map is used although the manifest was put again",
        "logcore/storage/remote_tier/known_manifests.py",
        "if said.manifest_version == manifest.version else None",
        "if said.manifest_version else None",
        (BUCKET, "-k", "only_that_one"),
    ),
    Fault(
        "each round reads the manifests of all segments again",
        "logcore/storage/remote_tier/known_manifests.py",
        "        _kept.keep(key, content)\n",
        "        pass\n",
        (BUCKET, "-k", "rounds"),
    ),
    Fault(
        "a run by reference registers no chunk map",
        "spark_jobs/ingest/segment_copy.py",
        "chunk_map=task.chunk_map if in_place and task.etag else None",
        "chunk_map=None",
        (BUCKET, "-k", "later_runs"),
    ),
    Fault(
        "jobs open the manifest of a segment that is registered with its chunk map",
        "spark_jobs/lake/store/mapped_file.py",
        "    if registered.chunk_map is not None and is_chunked_segment(path):\n",
        "    if registered.chunk_map is not None and is_chunked_segment(registered.etag):\n",
        (BUCKET, "-k", "without_local_copies"),
    ),
    Fault(
        "a chunk map may give chunks without compression another size than their contents",
        "logcore/remote/chunked/chunk_map.py",
        "    if not is_compressed:\n",
        "    if not is_compressed and is_encrypted:\n",
        (MAPS, "-k", "not_possible"),
    ),
    Fault(
        "a chunk map of another size than its object is called a change of the object",
        "logcore/storage/remote_tier/chunked_segment.py",
        "            return bool(stored.read(1, 0))\n",
        "            return False\n",
        (BUCKET, "-k", "that_lies"),
    ),
    Fault(
        "an object that took the name of a registered one is called a fault of the chunk map",
        "logcore/storage/remote_tier/chunked_segment.py",
        "            if not self._fits_manifest():\n",
        "            if not self._is_other_map():\n",
        (BUCKET, "-k", "registered_it"),
    ),
    Fault(
        "a key of a manifest that was written again is not tried",
        "logcore/storage/remote_tier/chunked_segment.py",
        "            return cipher_of(now)\n",
        "            raise\n",
        (CHUNKED, "-k", "another_rsa_key"),
    ),
    Fault(
        "verify does not compare chunk maps with manifests",
        "spark_jobs/lake_verification/archive.py",
        "        return unpacked(chunk_map).manifest == manifest\n",
        "        return manifest is not None\n",
        (BUCKET, "-k", "that_lies"),
    ),
)
