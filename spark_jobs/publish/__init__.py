"""The job `publish`: decided records go into the table `records`."""
