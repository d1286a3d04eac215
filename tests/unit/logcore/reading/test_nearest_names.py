"""Names that are similar to a requested one."""

from logcore.reading.nearest_names import nearest

TOPICS = ("orders", "orders-eu", "payments", "__consumer_offsets")


def test_the_nearest_names_come_nearest_first_whatever_their_case() -> None:
    assert nearest("oders", TOPICS) == ("orders", "orders-eu")
    assert nearest("PAYMENT", TOPICS) == ("payments",)
    assert nearest("_consumer_offset", TOPICS) == ("__consumer_offsets",)


def test_the_marks_of_a_pattern_do_not_count() -> None:
    assert nearest("oders*", TOPICS) == ("orders", "orders-eu")
    assert nearest("pay?ent[xyz]*", TOPICS) == ("payments",)


def test_nothing_is_near_to_what_is_like_nothing() -> None:
    assert nearest("zzz", TOPICS) == ()
    assert nearest("*", ()) == ()


def test_ten_thousand_topics_give_at_most_three_names() -> None:
    assert len(nearest("topic-77777", [f"topic-{number}" for number in range(10_000)])) == 3
