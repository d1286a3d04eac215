"""ZooKeeper's data files, with which clusters before KRaft kept their metadata: bytes in, values out."""
