"""What children tell their parent."""

from tests.support.toys import loaded
from workers.offers import Offers


def test_a_report_is_read_as_the_register_shows_it(tmp_path):
    """Models, what they take, and whether they read extensions."""
    offers = Offers(tmp_path, "n1")
    assert offers.read() is None

    offers.report([loaded()])

    assert offers.read() == {
        "processors": [
            {
                "model": "toy",
                "fingerprint": "0123456789abcdef",
                "modalities": {"image": 4, "audio": 1},
                "extensions": True,
            }
        ]
    }


def test_a_failure_is_told_in_its_own_words(tmp_path):
    """The parent ends with it; the last word counts."""
    offers = Offers(tmp_path, "n1")
    offers.report([loaded()])

    offers.report_failure("no folder")

    assert offers.read() == {"failure": "no folder"}
    assert [path.name for path in tmp_path.iterdir()] == ["offers-n1.json"]  # written whole or not at all


def test_what_an_earlier_worker_reported_is_forgotten(tmp_path):
    """Its models may not be ours."""
    Offers(tmp_path, "n1").report([loaded()])

    Offers(tmp_path, "n1").clear()
    Offers(tmp_path, "n1").clear()  # safe to call twice

    assert Offers(tmp_path, "n1").read() is None
