"""Which element type each model's features have: read from text, held against the models."""

import pytest

from forebay import ConfigurationError, DType, ModelSource
from forebay.feature_dtypes import FeatureDTypes

MODELS = (ModelSource("qwen2-vl"), ModelSource("other"))


def dtypes(text):
    return [model.feature_dtype for model in FeatureDTypes.parse(text).applied_to(MODELS)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [DType.FLOAT32, DType.FLOAT32]),
        ("bfloat16", [DType.BFLOAT16, DType.BFLOAT16]),
        ("qwen2-vl=uint8,other=bfloat16", [DType.UINT8, DType.BFLOAT16]),
        ("qwen2-vl=uint8", [DType.UINT8, DType.FLOAT32]),
        (" bfloat16 , qwen2-vl = uint8,,", [DType.UINT8, DType.BFLOAT16]),
        ("qwen2-vl=uint8,bfloat16", [DType.UINT8, DType.BFLOAT16]),
    ],
)
def test_a_dtype_is_every_models_or_one_models(text, expected):
    """In any order; what is said of one model wins, and float32 is what nobody spoke of."""
    assert dtypes(text) == expected


@pytest.mark.parametrize("text", ["float32", "bfloat16", "uint8,a=float32", "float32,a=uint8,b=bfloat16"])
def test_it_is_written_as_it_is_read(text):
    """One process tells another through its environment."""
    assert str(FeatureDTypes.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("qwen2-vl=int64", "qwen2-vl cannot have 'int64'; one of float32, bfloat16, uint8 was expected"),
        ("float16", "every model cannot have 'float16'; one of float32, bfloat16, uint8 was expected"),
        ("qwen2-vl=", "qwen2-vl cannot have ''; one of float32, bfloat16, uint8 was expected"),
        ("UINT8", "every model cannot have 'UINT8'; one of float32, bfloat16, uint8 was expected"),
        ("=uint8", "'=uint8' names no model"),
        ("a=uint8,a=bfloat16", "a has uint8 already, and bfloat16 is given again"),
        ("uint8,uint8", "every model has uint8 already, and uint8 is given again"),
    ],
)
def test_what_cannot_be_is_refused_with_its_model(text, told):
    """int64 is an element type, but not one of features."""
    with pytest.raises(ValueError, match=r".") as caught:
        FeatureDTypes.parse(text)

    assert str(caught.value) == told


def test_a_model_that_is_not_there_is_refused_with_its_dtype():
    """A typo would leave the model it meant at float32, in silence."""
    asked = FeatureDTypes.parse("bfloat16,qwen2_vl=uint8,other=uint8,more=bfloat16")

    with pytest.raises(ConfigurationError) as caught:
        asked.check(MODELS)

    assert str(caught.value) == ("feature dtype qwen2_vl=uint8, more=bfloat16: not among the models (qwen2-vl, other)")


def test_a_dtype_changes_nothing_else_of_a_model(tmp_path):
    """The folder stays, and so does the way the model is written."""
    (model,) = FeatureDTypes.parse("uint8").applied_to([ModelSource("a", tmp_path)])

    assert model == ModelSource("a", tmp_path, DType.UINT8)
    assert str(model) == f"a={tmp_path}"
