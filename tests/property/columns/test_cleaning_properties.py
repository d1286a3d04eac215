"""For all logs and all rounds: the compiled cleaner leaves the bytes, indexes and counts of the plain one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logcore.columns.cleaning.cleaning import CompiledCleaner
from logcore.logs.compaction.cleaner import PlainCleaner
from logcore.segments.scanning.scan import SegmentScan, Stretch
from tests import handmade
from tests.property.columns.cleaned_logs import Scene, outcome, scenes, with_content
from tests.sampling import examples

stable = settings(deadline=None, derandomize=True, max_examples=examples(250))


def both_agree(scene: Scene) -> None:
    assert outcome(CompiledCleaner(), scene) == outcome(PlainCleaner(), scene)


@pytest.mark.long
@stable
@given(scenes())
def test_any_log_is_cleaned_to_the_same_bytes(scene: Scene) -> None:
    both_agree(scene)


@pytest.mark.long
@stable
@given(scenes(), st.data())
def test_damage_that_is_not_declared_leads_to_the_same_bytes_or_the_same_error(
    scene: Scene, data: st.DataObject
) -> None:
    contents = []
    for each in scene.segments:
        content = bytes(each.content)
        if content and data.draw(st.booleans()):
            content = handmade.flip(content, data.draw(st.integers(0, len(content) - 1)))
        if content and data.draw(st.integers(0, 3)) == 0:
            content = handmade.cut(content, data.draw(st.integers(0, len(content))))
        contents.append(content)
    both_agree(with_content(scene, contents))


@pytest.mark.long
@stable
@given(scenes(), st.data())
def test_what_is_stated_as_unreadable_is_stepped_over_alike(scene: Scene, data: st.DataObject) -> None:
    segments, frozen = [], None
    for each in scene.segments:
        content = bytes(each.content)
        if content and data.draw(st.booleans()):
            content = handmade.flip(content, data.draw(st.integers(0, len(content) - 1)))
        walk = SegmentScan(
            content, base_offset=each.base_offset, sealed=True, next_base_offset=each.next_base_offset, decode=True
        )
        stretches = tuple((item.position, item.end) for item in walk if isinstance(item, Stretch))
        if walk.accounting.padding:
            stretches += ((len(content) - walk.accounting.padding, len(content)),)
        if stretches and frozen is None:
            frozen = data.draw(st.sampled_from([each.base_offset, each.base_offset + 3]))
        segments.append(replace(each, held=content, unreadable=stretches))
    both_agree(replace(scene, segments=tuple(segments), round=replace(scene.round, frozen_from=frozen)))
