"""The job `retention`: segments leave the lake as they leave a broker's log."""
