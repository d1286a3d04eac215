"""Sources on object stores: names, access, listings, and reads that notice a replaced object.

It needs the package `obstore`, which comes with the extra `s3` and is imported when an object is first read.
"""
