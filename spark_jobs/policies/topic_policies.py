"""The policy of the topics that one pattern matches, and the policy of a lake, as values.

``policies_file`` reads them. With ``from: cluster`` the policy of a topic also has what the cluster said about it:
:meth:`TopicPolicy.with_cluster`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from logcore.logs.model.broker_line import DEFAULT_LINE, BrokerLine
from logcore.logs.model.log_selection import topic_matches
from logcore.logs.model.topic_config import TopicConfig
from logcore.segments.filenames import is_internal_topic
from logcore.topics.topic_settings import TopicSettings
from spark_jobs.policies.compression import DEFAULT, Compression
from spark_jobs.policies.policy_values import INT64_MAX, Ratio, Setting, WholeNumber
from spark_jobs.policies.topic_settings import CLEANUP_POLICIES, SETTINGS, UNLIMITED

LATEST_POLICIES = {"delete": 1, "soft-delete": 2}
"""Values of ``latest`` with the numbers that tables of bytes record for them."""

_OF_BROKERS = ("producer.id.expiration.ms", "log.cleaner.dedupe.buffer.size")
OF_CLUSTER = tuple(each for each in SETTINGS.values() if each.is_kafkas and each.name not in _OF_BROKERS)
"""Settings that ``from: cluster`` takes from the cluster. Kafka has the others for brokers only."""


@dataclass(frozen=True, slots=True)
class TopicPolicy:
    """The configuration of the topics that one pattern matches; times in milliseconds, sizes in bytes."""

    pattern: str
    cleanup_policy: tuple[str, ...]
    """``compact`` and ``delete``, sorted; may be empty: then only offsets below the log start may be removed."""
    retention_ms: int = UNLIMITED
    retention_bytes: int = UNLIMITED
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    delete_retention_ms: int = 86_400_000
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    file_delete_delay_ms: int = 60_000
    producer_id_expiration_ms: int = 86_400_000
    log_cleaner_dedupe_buffer_size: int | None = None
    """Size at which Kafka's offset map would be full and end a round; None: unlimited."""
    compaction_spread_bytes: int = 256 << 20
    """A log with more to clean than this is cleaned by many tasks."""
    compat: str = str(DEFAULT_LINE)
    """The line of brokers whose bytes maintenance writes."""
    on_truncate: str = "stop"
    """``stop``, or ``follow``: a source that diverges below a frontier begins a new incarnation of the log."""
    on_recreate: str = "stop"
    """``stop``, or ``append``: a topic that is recreated under its name begins a new incarnation of the log."""
    on_trim: str = "keep"
    """``keep``, or ``follow``: retention also removes offsets below a log start that was moved at the source."""
    on_gone: str = "warn"
    """``warn``, or ``accept``: a log that its log directory no longer has, or a checkpoint alone, is information."""
    on_unfollowed: str = "warn"
    """``warn``, or ``accept``: a table of the topic that no policy asks for any more is no warning."""
    salvage: str = "strict"
    """``strict``: publish up to the first damage; ``permissive``: continue after it."""
    active_min_growth: int = 0
    """Bytes below which a run of the sensor leaves the growth of a log's end for later."""
    publish_min_bytes: int = 64 << 20
    """Final bytes from which a run of the sensor publishes a log at once."""
    publish_max_delay_ms: int = 600_000
    """Time after which a run of the sensor ingests and publishes a log, however little there is."""
    records_retention_ms: int | None = None
    """Age after which rows leave the tables; None: never."""
    parquet_codec: str = DEFAULT.codec
    """Codec of the Parquet files of records."""
    parquet_level: int = DEFAULT.level
    """Level of that codec; only zstd has one."""
    expectations_suite: str | None = None
    """Path of a suite of Great Expectations for the published rows; None: none."""
    latest: str | None = None
    """What tombstones do in ``latest/<topic>``: ``delete`` or ``soft-delete``; None: there is no such table."""
    decode_key: str | None = None
    """Format of the keys in ``decoded/<topic>``; None: they stay bytes."""
    decode_key_schema: str | None = None
    """Path of their schema; None: the format needs none, or keys name theirs."""
    decode_value: str | None = None
    """Format of the values in ``decoded/<topic>``; None: they stay bytes."""
    decode_value_schema: str | None = None
    """Path of their schema, as for keys."""
    decode_schemas: str | None = None
    """Where the schemas are that rows name: a topic of the lake, an address, or ``env:NAME``; None: rows name none."""
    decode_schemas_credentials: str | None = None
    """Where the credentials for that address are: ``env:NAME``, or the path of a file; None: it needs none."""
    decode_framing: str = "header-or-prefix"
    """Where rows name them: ``header-or-prefix`` or ``prefix``."""
    decode_key_subjects: tuple[str, ...] = ()
    """Subjects of the schemas that keys may name; empty: ``<topic>-key``."""
    decode_value_subjects: tuple[str, ...] = ()
    """The same for values; empty: ``<topic>-value``."""
    decode_key_message: str | None = None
    """Name of the Protobuf message of keys; None: the first of the schema."""
    decode_value_message: str | None = None
    """The same for values."""
    on_schema_change: str = "add"
    """``add``, ``wait`` or ``undecoded``: what rows of a schema with other fields do."""
    decode_undecoded_max: float | None = None
    """Share of the newest rows that may be undecodable; None: it must not rise."""
    decode_expectations_suite: str | None = None
    """Path of a suite of Great Expectations for the rows of ``decoded/<topic>``; None: none."""
    settings_from: str | None = None
    """``cluster``: settings without a line in the file are those that the cluster said; None: they have defaults."""
    lines: tuple[tuple[str, int], ...] = field(default=(), compare=False)
    """Fields that the file states, each with its line."""
    withheld: tuple[str, ...] = ()
    """Parts of ``cleanup.policy`` that are not carried out, because of ``doubt``."""
    doubt: str | None = None
    """Why what the cluster said about the topic is not certain; None: it is, or nothing is taken from it."""

    @property
    def compacts(self) -> bool:
        """Whether ``cleanup.policy`` has ``compact``."""
        return "compact" in self.cleanup_policy

    @property
    def may_have_gaps(self) -> bool:
        """Whether cleaning may have removed offsets of the log."""
        return self.compacts or "compact" in self.withheld

    @property
    def deletes(self) -> bool:
        """Whether ``cleanup.policy`` has ``delete``."""
        return "delete" in self.cleanup_policy

    @property
    def follows_trims(self) -> bool:
        """Whether ``on_trim`` says that a log start moved at the source counts here too."""
        return self.on_trim == "follow"

    @property
    def compression(self) -> Compression:
        """How files of records are compressed."""
        return Compression(self.parquet_codec, self.parquet_level)

    @property
    def line(self) -> BrokerLine:
        """``compat`` as the broker line that it names."""
        return BrokerLine(self.compat)

    @property
    def config(self) -> TopicConfig:
        """The configuration for maintenance of one partition."""
        ours = {each.name for each in fields(self)}
        names = [each.name for each in fields(TopicConfig) if each.name in ours]
        return TopicConfig(**{name: getattr(self, name) for name in names})

    @property
    def passes_damage(self) -> bool:
        """Whether ``salvage`` lets the frontier pass offsets that are missing, corrupt or of unknown outcome."""
        return self.salvage == "permissive"

    @property
    def decodes(self) -> bool:
        """Whether the topic has a table of decoded keys or values."""
        return self.decode_key is not None or self.decode_value is not None

    def wants(self, kind: str) -> bool:
        """Whether the topic has a table of a kind: ``decoded``, ``undecoded`` or ``latest``."""
        return self.latest is not None if kind == "latest" else self.decodes

    def matches(self, topic: str) -> bool:
        """Whether this policy's pattern covers a topic."""
        if is_internal_topic(topic) and not self.pattern.startswith("__"):
            return False
        return topic_matches(topic, self.pattern)

    def with_cluster(self, said: TopicSettings | None, topic_id: str | None) -> TopicPolicy:
        """Return the policy of one topic, with what the cluster said about it. Lines of the file win.

        Nothing is removed by a setting in doubt: then nothing is taken from the cluster, and nothing is compacted.
        ``delete`` stays if the file states it, with ``retention.*`` of the file.

        Args:
            said: What the cluster said; None: it is not known.
            topic_id: Of the log; None: not known.
        """
        if self.settings_from is None:
            return self
        stated = dict(self.lines)
        values, doubt = _said_values(said, stated)
        doubt = _doubt(said, topic_id) or doubt
        if doubt is None:
            return replace(self, **values)  # type: ignore[arg-type]
        wanted = values.get("cleanup_policy", self.cleanup_policy)
        assert isinstance(wanted, tuple)
        certain = tuple(word for word in self.cleanup_policy if word == "delete")
        return replace(
            self, cleanup_policy=certain, withheld=tuple(word for word in wanted if word not in certain), doubt=doubt
        )


def _doubt(said: TopicSettings | None, topic_id: str | None) -> str | None:
    if said is None:
        return "The metadata that was read does not name the topic at that time."
    if said.doubt is not None:
        return said.doubt
    return said.other_topic(topic_id)


def _said_values(said: TopicSettings | None, stated: Mapping[str, int]) -> tuple[dict[str, object], str | None]:
    """The values of the cluster by field, and which one cannot be used."""
    values: dict[str, object] = {}
    doubt = None
    for setting in OF_CLUSTER:
        if said is None or setting.field in stated or setting.name not in said.settings:
            continue
        found = said.settings[setting.name]
        try:
            values[setting.field] = _value(setting, found.value)
        except ValueError as error:
            doubt = f"The cluster's {setting.name}, offset {found.offset} of its metadata, cannot be used: {error}."
    return values, doubt


def _value(setting: Setting, text: str) -> object:
    if isinstance(setting.values, WholeNumber | Ratio):
        return setting.values.parse(text)
    words = {word.strip() for word in text.split(",")} - {""}
    if not words <= set(CLEANUP_POLICIES):
        raise ValueError(f"known are {', '.join(CLEANUP_POLICIES)}")
    return tuple(sorted(words))


@dataclass(frozen=True, slots=True)
class LakePolicy:
    """What schedules and sensors do with the lake."""

    ingest: str | int = "on closed segments"
    """``by hand``, ``on closed segments``, or the time from one run to the next in milliseconds."""
    nightly: str = "apply"
    """``plan`` or ``apply``."""
    engine: str = "auto"
    """``auto``, ``local`` or ``spark``."""
    cluster: str = "follow"
    """``follow`` or ``off``."""
    alerts_webhook: str | None = None
    """Address to which alerts are posted, or ``env:NAME``; None: there are no alerts."""
    alerts_max_lag: int | None = None
    """Offsets that may be unpublished without an alert; None: any number."""
    remote: tuple[str, ...] = ()
    """Directories or ``s3://`` prefixes of remote storage, for runs that name none."""
    expectations_rows: int = 1_000_000_000
    """New rows from which on a job on Spark checks each row with Great Expectations."""
    runs_retention_ms: int | None = None
    """Age after which rows leave the table ``runs``; None: never."""
