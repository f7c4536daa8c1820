"""A prompt is no longer than the model's context, counted with its media."""

from dataclasses import replace

import pytest

from forebay import ModelSource, Prompt
from forebay.task import Kind
from tests.support.media import plain_png
from tests.support.toys import Toy, loaded
from workers.child import _bounded

PNG = plain_png(2, 3)  # three tokens


class Short(Toy):
    """A toy with room for five tokens."""

    def capabilities(self):
        return replace(super().capabilities(), context_tokens=5)


@pytest.mark.service
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("kind", [Kind.GENERATE, Kind.PREPROCESS])
@pytest.mark.parametrize(("prompt", "fits"), [((1, 1, 7), True), ((1, 1, 1, 7), False), ((1,) * 6 + (7,), False)])
def test_a_prompt_that_is_too_long_with_its_media_is_refused(node, cached, kind, prompt, fits):
    """C040: with both numbers, and nothing of it is parked or held."""
    driver = node.driver(Short(ModelSource("toy")), cached=cached)

    driver.run(node.task(node.reference(PNG), prompt=Prompt(ids=prompt), kind=kind))

    problem = node.way.record().problem
    if fits:
        assert problem is None
        return
    assert (problem.code, problem.status) == ("prompt_too_long", 400)
    assert "the model takes 5" in problem.message
    assert node.pool.blocks() == []


@pytest.mark.service
def test_a_text_that_is_too_long_is_refused_before_its_media_are_read(node):
    """Media only make it longer; here they are not even in the store."""
    reference = node.reference(PNG)
    (node.store.folder / reference.digest.removeprefix("sha256:")).unlink()

    node.driver(Short(ModelSource("toy")), cached=True).run(node.task(reference, prompt=Prompt(ids=(1,) * 5 + (7,))))

    assert node.way.record().problem.code == "prompt_too_long"


@pytest.mark.parametrize(("own", "setting", "limit"), [(None, 0, None), (5, 0, 5), (None, 9, 9), (5, 9, 5), (9, 5, 5)])
def test_the_deployment_may_want_shorter_prompts_than_the_model_takes(own, setting, limit):
    """Never longer ones."""
    one = loaded()
    one = replace(one, capabilities=replace(one.capabilities, context_tokens=own))

    assert _bounded(one, setting).capabilities.context_tokens == limit
