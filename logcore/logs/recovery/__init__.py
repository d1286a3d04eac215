"""A broker's start on a partition directory, and what it loses: a proposal, nothing is written.

segment_recovery   one segment: how far it is valid, and its three indexes (LogSegment.recover)
producer_states    producer snapshots during a start: which are loaded, written and removed (ProducerStateManager)
loading            all passes of a start in their order (LogLoader)
proposal           the result as a value: files, what was dropped, steps, losses
plan               makes that value for a start
salvage            keeps what a start would lose
reindexing         rebuilds only the side files
"""
