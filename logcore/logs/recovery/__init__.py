"""What a broker's start makes of a partition directory, and what it loses on the way: a proposal, nothing is written.

segment_recovery   one segment: how far it is valid, and its three indexes (LogSegment.recover)
producer_states    producer snapshots through a start: which are loaded, taken and removed (ProducerStateManager)
loading            all passes of a start in their order (LogLoader)
proposal           the result as a value: files, what was dropped, steps, losses
plan               how that value is made for a start
salvage            what a start would lose, kept instead
reindexing         the side files alone, made again
"""
