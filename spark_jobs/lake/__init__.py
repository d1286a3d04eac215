"""The state of a lake, read and committed through ``deltalake``: plans are made here, without a JVM."""
