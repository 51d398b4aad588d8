"""Functions of Spark that are refused, in groups: why, and what to use instead."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """A group of functions: what they are, why they are refused, what to do, and their names or beginnings of names."""

    title: str
    reason: str
    fix: str
    names: str = ""
    prefixes: str = ""

    def covers(self, name: str) -> bool:
        return name in self.names.split() or any(name.startswith(prefix) for prefix in self.prefixes.split())


_UDF = "register a stretto.udf, or use map() with a Python function"
REFUSALS = (
    Refusal(
        "random", "a batch that is repeated after a failure would get other values",
        "make the value where the rows come from, or hash a column",
        "rand random randn randstr uniform uuid shuffle",
    ),
    Refusal(
        "clock", "the answer depends on when a batch runs, and a batch may run again",
        "use the event time of the rows, or add the time in the source",
        "now curdate current_date current_time current_timestamp localtime localtimestamp",
    ),
    Refusal(
        "session and placement", "the answer depends on the session or on where a row is, not on the row",
        "pass the value as a constant, or add a column in the source",
        "current_catalog current_database current_path current_schema current_user session_user user version "
        "monotonically_increasing_id spark_partition_id input_file_name input_file_block_length "
        "input_file_block_start python_worker_logs",
    ),
    Refusal(
        "window functions", "rows of a stream have no frame", "use top(..., by=...), or window() and an aggregate",
        "cume_dist dense_rank lag lead nth_value ntile percent_rank rank row_number counter_diff",
    ),
    Refusal(
        "windows in time", "windows are a verb", "use the verb window()", "window session_window window_time"
    ),
    Refusal("table functions", "they are tables, not values", "make a source", "range collations sql_keywords"),
    Refusal(
        "grouping", "there are no grouping sets here",
        "use it in the aggregate after rollup(...), cube(...) or grouping_sets(...)", "grouping grouping_id",
    ),
    Refusal("metric views", "there are no metric views", "write the aggregate", "measure"),
    Refusal(
        "sketches", "the state of a sketch is a format of Spark's libraries",
        "use approx_count_distinct, percentile or top_k, which keep state of their own",
        "count_min_sketch histogram_numeric", "approx_top_k hll_ kll_ theta_ tuple_ bitmap_",
    ),
    Refusal(
        "variant", "there is no variant type", "read the fields with get_json_object or from_json",
        "parse_json try_parse_json is_valid_variant is_variant_null to_variant_object",
        "variant_ try_variant_ schema_of_variant",
    ),
    Refusal("XML", "XML is not read", _UDF, "from_xml to_xml schema_of_xml xpath", "xpath_"),
    Refusal(
        "CSV texts", "CSV is read from files, not from columns", "use split, or " + _UDF,
        "from_csv to_csv schema_of_csv",
    ),
    Refusal(
        "formats of other libraries", "Avro and Protobuf are not read", _UDF,
        "from_avro to_avro schema_of_avro from_protobuf to_protobuf",
    ),
    Refusal("geospatial", "there are no geometry types", _UDF, prefixes="st_"),
    Refusal("vectors", "embeddings are not computed", _UDF, prefixes="vector_"),
    Refusal(
        "time of day", "there is no type TIME", "use a timestamp, or seconds of the day",
        "make_time time time_bucket time_diff time_trunc to_time try_to_time", "time_from_ time_to_",
    ),
    Refusal(
        "timestamps without a zone, and nanoseconds", "timestamps are instants in microseconds",
        "use a timestamp in UTC",
        "make_timestamp_ntz try_make_timestamp_ntz to_timestamp_ntz timestamp_nanos unix_nanos convert_timezone",
    ),
    Refusal(
        "calendar intervals", "an interval has months, or days and time, not both",
        "use make_ym_interval or make_dt_interval", "make_interval try_make_interval",
    ),
    Refusal(
        "Java methods", "workers run no Java code", "use a stretto.udf in Python", "java_method reflect try_reflect"
    ),
    Refusal(
        "collations", "strings are compared by their bytes", "use lower() or upper() on both sides", "collate collation"
    ),
    Refusal(
        "encryption", "keys do not belong into expressions", "encrypt in the sink, or " + _UDF,
        "aes_encrypt aes_decrypt try_aes_decrypt hmac",
    ),
    Refusal(
        "not written: texts", "nobody has written them yet", _UDF,
        "from_base32 to_base32 jaro_winkler_similarity sentences",
    ),
    Refusal(
        "discrete percentiles", "nobody has written it yet",
        "use percentile_approx(x, fraction): it is exact, and one of the values too", "percentile_disc"
    ),
    Refusal(
        "unions of lists", "nobody has written it yet",
        "explode the arrays, then use collect_set", "collect_union"
    ),
    Refusal("inferred schemas", "a type must be known before the rows", "name the type", "schema_of_json"),
)  # fmt: skip


_WITHOUT_PARENTHESES = (
    "current_date current_time current_timestamp current_user localtime localtimestamp session_user user"
)


def refusal_of_word(name: str) -> Refusal | None:
    """Returns why a word that Spark reads as a call, when there is no such column, is refused; None if it is none."""
    return refusal_of(name.lower()) if name.lower() in _WITHOUT_PARENTHESES else None


def refusal_of(name: str) -> Refusal | None:
    """Returns why a function is refused by name, or None if it is not."""
    return next((each for each in REFUSALS if each.covers(name)), None)
