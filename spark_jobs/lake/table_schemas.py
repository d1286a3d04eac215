"""The columns, as Arrow schemas, of the tables that jobs write."""

from __future__ import annotations

from spark_jobs.lake.table_specs import TABLES

LOGS = TABLES["logs"].schema

SEGMENTS = TABLES["segments"].schema

VALIDATIONS = TABLES["validations"].schema

BATCHES = TABLES["batches"].schema

FINDINGS = TABLES["findings"].schema

QUARANTINE = TABLES["quarantine"].schema

TRANSACTIONS = TABLES["transactions"].schema

OFFSET_LEDGER = TABLES["offset_ledger"].schema

WITHDRAWALS = TABLES["withdrawals"].schema

LOG_ACTIONS = TABLES["log_actions"].schema

RUNS = TABLES["runs"].schema
