"""The job `prove`: the lake proved from its own bytes, as a scheduled job."""
