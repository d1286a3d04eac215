"""Pairs of transactions that no coordinator's log has any more."""

from __future__ import annotations

from logcore.logs.model.paired_transactions import PairedState, PartitionTransactions, paired_transactions
from logcore.logs.model.transactions import Transaction, TransactionState
from logcore.topics.coordinated_transactions import CoordinatedTransactions

COMMITTED = TransactionState.COMMITTED


def states(transactions: list[Transaction]) -> list[PairedState]:
    log = PartitionTransactions(("t", 0), 1 << 40, transactions)
    paired = paired_transactions([log], CoordinatedTransactions(), newest_ms=0, has_every_coordinator=True)
    return [each.state for each in paired]


def test_data_of_the_same_epoch_without_a_marker_in_another_partition_makes_it_torn() -> None:
    done = Transaction(7, 3, 0, 0, 1, COMMITTED, 4)
    logs = [
        PartitionTransactions(("t", 0), 9, [done]),
        PartitionTransactions(("t", 1), 9, [Transaction(7, 3, 5, 6, None, TransactionState.OPEN)]),
        PartitionTransactions(("t", 2), 9, [Transaction(8, 3, 5, 6, None, TransactionState.OPEN)]),
    ]
    paired = list(paired_transactions(logs, CoordinatedTransactions(), newest_ms=0, has_every_coordinator=True))
    assert [(each.state, len(each.parts)) for each in paired] == [(PairedState.TORN, 2), (PairedState.HANGING, 1)]
