"""What codecs print while they decode is nobody's; everything before and after is."""

import os
import subprocess
import sys
import warnings

import pytest

from workers.decode.quiet import quiet


def print_and_fail():
    with quiet():
        os.write(2, b"within ")
        raise ValueError("a codec gave up")


def test_only_what_is_printed_meanwhile_is_lost(capfd):
    """Whoever prints it, and also when it ends badly."""
    os.write(2, b"before ")
    with pytest.raises(ValueError, match="a codec gave up"):
        print_and_fail()
    os.write(2, b"after")

    assert capfd.readouterr().err == "before after"


def test_a_warning_about_a_file_is_nobodys_either():
    """Warnings are errors here; so this one would have been the end of a picture that is read all the same."""
    with quiet():
        warnings.warn("Corrupt EXIF data", stacklevel=1)

    with pytest.raises(UserWarning, match="ours"):
        warnings.warn("ours", stacklevel=1)


def test_no_descriptor_is_left_open():
    """A child decodes thousands of files."""
    before = sorted(os.listdir("/proc/self/fd"))

    for _ in range(10):
        with quiet():
            pass

    assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_process_without_a_standard_error_can_decode():
    """A daemon may have closed it."""
    code = "import os\nos.close(2)\nfrom workers.decode.quiet import quiet\nwith quiet():\n    print('decoded')"

    run = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)

    assert run.stdout == "decoded\n"
