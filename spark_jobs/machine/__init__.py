"""What a machine needs to run Spark: Java, jars, a native library from a jar, a class archive, the session."""
