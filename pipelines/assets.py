"""The assets of a lake: what it contains, in the order in which it is made.

::

    job `intake`        archived_segments → validated_segments → records
    job `maintenance`   records → retained_log → compacted_log → tidy_archive → rebuilt_indexes
                        records → optimized_tables

The tables that users query beside `records` are assets too, of the step that writes them last
(:mod:`pipelines.catalog.tables`).
The name of the lake is the first part of each key. Each job is one graph of ops, one op per step. So a step runs after
the previous one even if that one found nothing. A run without partition keys checks every log, and records a
materialization for each key that changed, many keys in one run. A run that finds nothing new records none. A run for
chosen partition keys records one for each of them, so that a backfill finishes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any

import dagster as dg

from spark_jobs.errors import JobError, UsageError
from spark_jobs.lake.view.lake_state import LakeState
from spark_jobs.lake.view.registered_lakes import RegisteredLake, check_policies
from spark_jobs.lake.view.unfinished_run import UnfinishedRun
from spark_jobs.policies.policies_file import Policies

from .catalog.asset_results import AssetResult
from .catalog.dagster_values import as_metadata, table_schema
from .catalog.names import asset_key, asset_spec, documentation_of, graph_name, name_in_lake, table_name
from .catalog.run_configuration import BEGIN, config_schema, request_of, started_by
from .catalog.tables import table_events, table_specs
from .errors.failures import failure_of, final_failure, say_canceled
from .errors.interrupts import is_interrupt, lost_interrupts_repeated
from .errors.step_errors import without_text
from .events import (
    asset_observation,
    check_evaluation,
    check_result,
    check_spec,
    keep_answers,
    partition_events,
)
from .partitions import chosen_keys, register, topic_partitions
from .resources import ENGINE_TAG, JobLauncher, StepResults
from .run import check_definitions
from .run.chains import CHAINS, MAINTENANCE_JOB, SOURCES, Product, Step
from .run.outcome import StepResult
from .run.run_request import RunRequest
from .run.run_row_writer import RunRowWriter
from .run.steps import Run

POOL = "spark"
"""Steps that may start Spark; deploy/dagster.yaml lets one of them run at a time."""

Results = Mapping[str, Mapping[str, dg.AssetKey | dg.AssetCheckKey]]
"""By step, in the order of the steps, and by output of its op: the asset, or the check."""


def outside_assets(lake: RegisteredLake) -> list[dg.AssetSpec]:
    """The assets of a lake that no run makes."""
    return [
        asset_spec(
            lake,
            SOURCES,
            lake.identifier,
            description="Log directories that Kafka brokers wrote: on a broker's disk, in a snapshot, or a copy. "
            "Only read, never written.",
            kinds={"kafka"},
        ),
        # An asset only for its check, so that materializing other assets does not wait for a proof.
        asset_spec(
            lake,
            check_definitions.WHOLE_LAKE,
            lake.identifier,
            made_from=(check_definitions.RECORDS,),
            description="Archive and tables of a lake together, as the nightly verification checks them. Nothing is "
            "made here.",
            kinds={"deltalake"},
        ),
    ]


def chain_assets(lake: RegisteredLake, job: str, pool: str | None = POOL) -> dg.AssetsDefinition:
    """The chain of steps of a job as one graph whose outputs are the assets and the check results.

    Args:
        job: ``intake`` or ``maintenance``.
        pool: Dagster's pool in which each step takes a slot before it begins.
    """
    name, chain = graph_name(lake, job), CHAINS[job]
    specs = {step.name: table_specs(lake, step, name) for step in chain}
    for step in chain:
        specs[step.name] += [_product_spec(lake, step.product, name)] if step.product else []
    results = {
        step.name: {spec.key.path[-1]: spec.key for spec in specs[step.name]}
        | {spec.get_python_identifier(): spec.key for spec in (check_spec(lake, check) for check in step.checks)}
        for step in chain
    }
    by_key = {spec.key: spec for of_step in specs.values() for spec in of_step}
    sources = {dep.asset_key for spec in by_key.values() for dep in spec.deps} - by_key.keys()
    outside = {key.path[-1]: key for key in sorted(sources)}
    # Assets of other graphs enter through an op of their own: Dagster cannot look up the versions of a partitioned
    # input for a run that has no partition.
    begin = _begin_op(f"{name}__begin", lake, job, list(outside))
    ops = [begin, *(_op(lake, job, step, results, pool) for step in chain)]
    nodes = [
        dg.NodeInvocation(op.name, alias) for op, alias in zip(ops, [BEGIN, *(s.name for s in chain)], strict=True)
    ]
    graph = dg.GraphDefinition(
        name=name,
        node_defs=ops,
        dependencies={nodes[0]: {}}
        | {after: {"after": dg.DependencyDefinition(str(before.alias), "done")} for before, after in pairwise(nodes)},
        input_mappings=[
            dg.InputMapping(graph_input_name=source, mapped_node_name=BEGIN, mapped_node_input_name=source)
            for source in outside
        ],
        output_mappings=[
            dg.OutputMapping(graph_output_name=out, mapped_node_name=step, mapped_node_output_name=out)
            for step, outs in results.items()
            for out in outs
        ],
    )
    return dg.AssetsDefinition.from_graph(
        graph,
        keys_by_input_name=outside,
        keys_by_output_name={key.path[-1]: key for key in by_key},
        internal_asset_deps={key.path[-1]: {dep.asset_key for dep in spec.deps} for key, spec in by_key.items()},
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
        check_specs=[check_spec(lake, definition) for step in chain for definition in step.checks],
    ).map_asset_specs(lambda spec: by_key[spec.key].replace_attributes(skippable=True))


def _product_spec(lake: RegisteredLake, product: Product, group: str) -> dg.AssetSpec:
    return asset_spec(
        lake,
        product.name,
        group,
        product.made_from,
        partitions_def=topic_partitions(lake),
        description=product.description,
        metadata=_metadata(lake, product),
        kinds=set(product.kinds),
        code_version=product.code_version,
    )


def _metadata(lake: RegisteredLake, product: Product) -> dict[str, Any]:
    """What the catalog shows of an asset beside its texts."""
    metadata = {
        "dagster/column_schema": table_schema(product.table),
        **({"dagster/table_name": table_name(lake, product.table)} if product.table == product.name else {}),
        **documentation_of(product.table),
    }
    if product.column_sources:
        deps = {
            column: [dg.TableColumnDep(asset_key(lake, asset), source)]
            for column, (asset, source) in product.column_sources.items()
        }
        metadata["dagster/column_lineage"] = dg.TableColumnLineage(deps)
    return metadata


def _begin_op(name: str, of: RegisteredLake, job: str, sources: Sequence[str]) -> dg.OpDefinition:
    ins = {source: dg.In(dg.Nothing) for source in sources}

    @dg.op(
        name=name,
        description="Name the lake of this run, and its clock.",
        ins=ins,
        out={"done": dg.Out(dg.Nothing)},
        config_schema=config_schema(),
    )
    def begin(
        context: dg.AssetExecutionContext,
        loglake_launcher: JobLauncher,
        loglake_results: dg.ResourceParam[StepResults],
    ) -> None:
        run = _begin(of, job, context, loglake_launcher, loglake_results)
        try:
            check_request(run, context)
            check_policies(run.lake, run.request.policies)
        except UsageError as error:
            raise final_failure(error, BEGIN, run.run_id, run.lake) from error
        keys = "every topic partition" if run.keys is None else ", ".join(run.keys)
        context.log.info(f"Lake {run.lake}; {keys}; clock {run.as_of_ms} ms")

    return begin


def _op(of: RegisteredLake, job: str, step: Step, results: Results, pool: str | None) -> dg.OpDefinition:
    # The next step waits for `done`; the asset's own output is left out if the asset did not change.
    outs = {"done": dg.Out(dg.Nothing), **{name: dg.Out(dg.Nothing, is_required=False) for name in results[step.name]}}

    @dg.op(
        name=name_in_lake(of, step.name),
        description=step.work.__doc__,
        ins={"after": dg.In(dg.Nothing)},
        out=outs,
        pool=pool,
    )
    def compute(
        context: dg.AssetExecutionContext,
        loglake_launcher: JobLauncher,
        loglake_results: dg.ResourceParam[StepResults],
    ) -> Iterator[dg.Output[None] | dg.AssetCheckResult]:
        selected = context.op_execution_context.selected_output_names
        if selected - {"done"}:  # otherwise this step is only between selected ones
            run = _begin(of, job, context, loglake_launcher, loglake_results)
            is_last = step.name == _last_step(results, context)
            with lost_interrupts_repeated(more_follows=True), _clear_failures(step, run, context):
                done = _result(step, run, loglake_results, context, is_last=is_last)
                _tag_engine(run, context)
                if step.product is not None and step.product.name == check_definitions.RECORDS:
                    loglake_results.end_intake(run.run_id)
                yield from _record(of, context, step, run, done, selected)
                loglake_results.recorded(run.run_id, step.name)
                if is_last and run.recorder is not None and run.recorder.so_far.unread is not None:
                    raise JobError(run.recorder.so_far.unread)  # red checks alone would leave the run a success
        if "done" in selected:
            yield dg.Output(None, "done")

    return compute


def _begin(
    lake: RegisteredLake,
    job: str,
    context: dg.AssetExecutionContext,
    launcher: JobLauncher,
    results: StepResults,
) -> Run:
    try:
        request = request_of(context.run, lake, job)
        policies = _policies(context.run.run_id, lake.path, request)
    except UsageError as error:
        raise final_failure(error, BEGIN, context.run.run_id, lake.path) from error
    record = context.instance.get_run_record_by_id(context.run.run_id)
    if record is None:
        raise dg.Failure(f"The run {context.run.run_id} is not known to its own instance.")
    as_of_ms = int(record.create_timestamp.timestamp() * 1000) if request.as_of_ms is None else request.as_of_ms
    publishes = asset_key(lake, check_definitions.RECORDS) in context.selected_asset_keys
    run_id = context.run.run_id
    started_ms = int((record.start_time or record.create_timestamp.timestamp()) * 1000)
    is_plan = job == MAINTENANCE_JOB and not request.apply
    begun = UnfinishedRun(run_id, job, started_by(context.run.tags), as_of_ms, started_ms, is_plan=is_plan)
    is_retry = context.op_execution_context.retry_number > 0
    recorder = RunRowWriter(lake.path, UnfinishedRun.kept(run_id) or begun, is_kept=True, may_be_written=is_retry)
    return Run(
        run_id,
        lake.path,
        as_of_ms,
        request,
        policies,
        launcher,
        chosen_keys(context),
        publishes=publishes,
        recorder=recorder,
        reports=results.reports_of(run_id),
        results=results.intake_of(run_id) if publishes else None,
    )


@lru_cache(maxsize=8)
def _policies(run_id: str, lake: str, request: RunRequest) -> Policies:
    """The policies with which a run began, for all its steps in this process."""
    return request.policies_of(lake)


def _last_step(results: Results, context: dg.AssetExecutionContext) -> str:
    """The last step of a run for the chosen assets and checks."""
    chosen = {*context.selected_asset_keys, *context.selected_asset_check_keys}
    return [step for step, outs in results.items() if not chosen.isdisjoint(outs.values())][-1]


def check_request(run: Run, context: dg.AssetExecutionContext) -> None:
    """Refuse a request that the run cannot carry out, before it does anything.

    Raises:
        UsageError: The request, and what to change.
    """
    is_replacing = run.request.replace is not None
    if is_replacing and not run.publishes:
        raise UsageError("replace publishes records again, and this run does not make them. Choose records too.")
    if run.is_backfill and run.request.logs and set(run.request.logs) != set(run.keys or ()):
        chosen = ", ".join(run.keys or ())
        raise UsageError(f"logs: this run is for the partitions {chosen}. Leave out logs, or choose no partitions.")


@contextmanager
def _clear_failures(step: Step, run: Run, context: dg.AssetExecutionContext) -> Iterator[None]:
    """Turn each error of a step, and of recording it, into one sentence or the request for a further attempt."""
    try:
        yield
    except dg.Failure as error:
        if run.recorder is not None:
            run.recorder.failed(step.name, error)
        raise
    except (dg.RetryRequested, GeneratorExit):
        raise
    except Exception as error:  # noqa: BLE001 - it is raised again, without the text of unforeseen errors
        if is_interrupt(error):
            say_canceled(context.log)
            raise dg.DagsterExecutionInterruptedError from without_text(error)
        attempts = context.op_execution_context.retry_number
        failure = failure_of(error, step.name, run.run_id, run.lake, attempts, context.log)
        if run.recorder is not None:
            if isinstance(failure, dg.Failure):
                run.recorder.failed(step.name, error)
            else:
                run.recorder.attempt_failed()
        raise failure from without_text(error)
    except BaseException as error:
        if is_interrupt(error):
            say_canceled(context.log)
        raise


def _tag_engine(run: Run, context: dg.AssetExecutionContext) -> None:
    """Name the engine of the run as soon as one of its jobs had tasks for workers."""
    if run.ran_by is not None:
        context.instance.add_run_tags(context.run.run_id, {ENGINE_TAG: run.ran_by})


def _result(
    step: Step, run: Run, results: StepResults, context: dg.AssetExecutionContext, *, is_last: bool
) -> StepResult:
    done = results.result_of(run.run_id, step.name)
    if done is None:
        done = step.work(run)
        run.step_done(done, is_last=is_last)
        results.keep(run.run_id, step.name, done)
    keep_answers(context.instance, run.lake, run.run_id, done)
    return done


def _record(
    lake: RegisteredLake,
    context: dg.AssetExecutionContext,
    step: Step,
    run: Run,
    done: StepResult,
    selected: Collection[str],
) -> Iterator[dg.Output[None] | dg.AssetCheckResult]:
    """Events and check results of a step that has run."""
    if done.state is not None:
        _refuse_unknown(run, done.state)
        register(context.instance, lake, (log.topic_partition for log in done.state.logs))
    if step.product is not None and step.product.name in selected:
        yield from _materializations(lake, context, step.product, run, done)
    waits_for = context.selected_asset_keys if started_by(context.run.tags) == "backfill" else ()
    for event in table_events(lake, context.instance, step, done, waits_for):
        context.log_event(event)
    for answer in done.answers:
        if answer.is_unanswered and answer.asset in check_definitions.OF_MAINTENANCE:
            context.log.info(f"{answer.name}: {answer.description}")  # Dagster shows the check as skipped
            continue
        evaluation = check_evaluation(lake, answer)
        if evaluation.asset_check_key in context.selected_asset_check_keys:
            yield check_result(lake, answer)
        else:  # a table was chosen alone
            context.log_event(evaluation)


def _refuse_unknown(run: Run, state: LakeState) -> None:
    """Refuse a run for topic partitions that the lake does not have, after its sources were read."""
    missing = sorted(set(run.keys or ()) - {log.topic_partition for log in state.logs})
    if missing:
        raise dg.Failure(
            f"Neither the lake {state.name} nor its sources have {', '.join(missing)}.", allow_retries=False
        )


def _materializations(
    lake: RegisteredLake, context: dg.AssetExecutionContext, product: Product, run: Run, done: StepResult
) -> Iterator[dg.Output[None]]:
    """Materializations: of each chosen key, or of each key that changed."""
    key_of_asset = asset_key(lake, product.name)
    made = AssetResult.of(product, done.state or run.state(), done, run.as_of_ms)
    if not run.is_backfill:
        for event in partition_events(lake, made, done):
            context.log_event(event)
        return
    for observation in done.observations:
        context.log_event(asset_observation(lake, observation))
    _refuse_unknown(run, made.state)
    by_key = {log.topic_partition: log for log in made.state.logs}
    for key in run.keys or ():
        context.add_asset_metadata(as_metadata(made.of_log(by_key[key])), key_of_asset, key)
    yield dg.Output(None, product.name)
