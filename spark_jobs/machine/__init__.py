"""What this machine needs to run Spark: Java, jars, an archive of classes, the one session."""
