"""What the job `cluster` leaves for its next run and for pages, beside its tables.

last_reading       what it found when it last read the sources
source_directory   a log directory at a source
"""
