"""Which processor each model has, as the operator says it."""

import pytest

from forebay import ConfigurationError, ModelSource
from forebay.processor_choice import ProcessorChoice

ONE, TWO = ModelSource("one"), ModelSource("two")


@pytest.mark.parametrize("text", ["", "mine", "one=mine", "one=mine,two=package.module:Class"])
def test_what_is_said_is_read_and_written(text):
    """Launcher and parts tell each other by text."""
    assert str(ProcessorChoice.parse(text)) == text


def test_each_model_gets_its_own():
    """Or keeps that of its name."""
    one, two = ProcessorChoice.parse("two=a:B").applied_to([ONE, TWO])

    assert (one.processor, two.processor) == ("", "a:B")
    assert ProcessorChoice.parse("a:B").applied_to([ONE])[0].processor == "a:B"
    assert ProcessorChoice.parse("one=x,two=y").of(TWO).processor == "y"


@pytest.mark.parametrize(
    ("text", "models", "said"),
    [
        ("three=x", [ONE, TWO], r"processor three=x: not among the models \(one, two\)"),
        ("x", [ONE, TWO], r"processor x: of which of 2 models\? Use MODEL=x"),
    ],
)
def test_what_cannot_be_meant_is_refused(text, models, said):
    """At start."""
    with pytest.raises(ConfigurationError, match=said):
        ProcessorChoice.parse(text).applied_to(models)


@pytest.mark.parametrize("text", ["one=", "=x", ":Class", "module:", "one=x,one=y"])
def test_what_is_no_name_is_refused(text):
    """With what was expected."""
    with pytest.raises(ValueError, match=r"expected|names no model|given again"):
        ProcessorChoice.parse(text)
