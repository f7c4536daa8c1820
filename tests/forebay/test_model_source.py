"""A model's files: a mistake names the file and the key."""

import pytest

from forebay import ConfigurationError, ModelSource


@pytest.fixture
def model(tmp_path):
    return ModelSource.parse(f"toy={tmp_path}")


def write(model, text):
    (model.folder / "config.json").write_text(text)
    return model.json("config.json")


def test_a_model_is_a_name_and_perhaps_a_folder(tmp_path):
    """And prints as the operator wrote it."""
    assert ModelSource.parse("toy") == ModelSource("toy")
    assert ModelSource.parse(f"toy={tmp_path}") == ModelSource("toy", tmp_path)
    assert str(ModelSource.parse(f"toy={tmp_path}")) == f"toy={tmp_path}"
    assert str(ModelSource("toy")) == "toy"


def test_a_folder_may_have_an_equals_sign(tmp_path):
    """Only the first one separates."""
    folder = tmp_path / "a=b"
    folder.mkdir()

    assert ModelSource.parse(f"toy={folder}").folder == folder


@pytest.mark.parametrize(
    ("text", "told"), [("", "needs a name"), ("=/tmp", "needs a name"), ("a=/no/such", "is not a folder")]
)
def test_a_model_that_cannot_be_is_refused_as_it_was_written(text, told):
    """The operator recognises what was typed."""
    with pytest.raises(ConfigurationError, match=told) as caught:
        ModelSource.parse(text)

    assert repr(text) in str(caught.value)


def test_a_file_is_found_or_named(model):
    """So is the folder that would be needed."""
    (model.folder / "there.bin").touch()

    assert model.file("there.bin") == model.folder / "there.bin"
    with pytest.raises(ConfigurationError, match=r"model 'toy': .*absent\.bin is missing"):
        model.file("absent.bin")
    with pytest.raises(ConfigurationError, match=r"no folder; config\.json is needed: use toy=DIR"):
        ModelSource("toy").file("config.json")


@pytest.mark.parametrize(
    ("text", "told"), [("{", "not JSON: "), ("", "not JSON: "), ("[1]", "a JSON object was expected, found list")]
)
def test_a_file_that_is_no_json_object_is_named(model, text, told):
    """With what was found in it."""
    with pytest.raises(ConfigurationError, match=rf"config\.json: {told}"):
        write(model, text)


def test_a_value_is_found_at_its_path(model):
    """Dots descend; the kind is checked on arrival."""
    file = write(model, '{"size": {"patch": 14}, "mean": [0.5], "fast": true}')

    assert file.get("size.patch", int) == 14
    assert file.get("mean", list) == [0.5]
    assert file.get("fast", bool) is True
    assert file.names == {"size", "mean", "fast"}


def test_an_absent_value_has_the_default_or_is_missed(model):
    """Null counts as absent where there is a default."""
    file = write(model, '{"size": {"patch": null}, "flat": 3}')

    assert file.get("size.merge", int, 2) == 2
    assert file.get("size.patch", int, 14) == 14
    assert file.get("flat.deeper", int, 7) == 7
    with pytest.raises(ConfigurationError, match=r"config\.json: key 'size\.merge' is missing"):
        file.get("size.merge", int)


@pytest.mark.parametrize(
    ("value", "kind"), [('"14"', int), ("1.5", int), ("null", int), ("true", int), ("false", float), ("[]", dict)]
)
def test_a_value_of_another_kind_is_shown(model, value, kind):
    """A boolean is no number, whatever Python thinks."""
    file = write(model, f'{{"patch": {value}}}')

    with pytest.raises(ConfigurationError, match=r"config\.json: key 'patch' has the unsupported value"):
        file.get("patch", kind)


def test_a_number_may_be_whole_where_a_fraction_is_expected(model):
    """JSON knows one kind of number."""
    assert write(model, '{"mean": 1}').get("mean", (int, float)) == 1
