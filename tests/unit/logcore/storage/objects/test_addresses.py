"""Names of objects."""

from __future__ import annotations

import pytest

from logcore.storage.objects.addresses import AddressError, absolute, directory_of, is_object, split, url_of


def test_a_name_is_a_bucket_and_a_key():
    assert split("s3://bucket/logs/orders-0") == ("bucket", "logs/orders-0")
    assert split("s3://bucket") == split("s3://bucket/") == ("bucket", "")
    assert url_of("bucket", "logs/") == "s3://bucket/logs"


@pytest.mark.parametrize("name", ["gs://bucket/logs", "s3://", "s3:///logs", "s3://key:secret@bucket", "s3://b/k?x=1"])
def test_other_names_are_refused(name):
    with pytest.raises(AddressError):
        split(name)


def test_directories_are_parts_of_the_key():
    assert directory_of("s3://bucket/logs/orders-0/") == "s3://bucket/logs"
    assert directory_of("s3://bucket/orders-0") == "s3://bucket"
    assert absolute("s3://bucket/logs/") == "s3://bucket/logs"
    assert directory_of("/logs/orders-0") == "/logs"
    assert [is_object(path) for path in ("s3://bucket/logs", "/logs", "logs")] == [True, False, False]
