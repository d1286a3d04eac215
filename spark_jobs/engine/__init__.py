"""What runs the tasks of a job: worker processes of this machine, or Spark with its Java and jars."""
