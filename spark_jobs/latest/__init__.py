"""The job `latest`: the newest row of each key of a topic in `latest/<topic>`."""
