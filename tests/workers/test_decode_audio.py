"""Audio bytes to mono samples at the rate that a processor asks for."""

import io
import struct

import numpy as np
import pytest
import soundfile

from forebay import Rejected
from workers.decode import decode_audio
from workers.decode.audio import audio_length
from workers.decode.audio_limits import MAX_DURATION_S, MAX_SAMPLES

PARAM = "audio_data"
SINE = (np.sin(np.arange(4800) / 20) / 2).astype(np.float32)
STEREO = np.stack([SINE, -SINE], axis=1)


def encoded(samples, rate_hz, kind="WAV", subtype=None):
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format=kind, subtype=subtype)
    return file.getvalue()


def refused(data, rate_hz=16_000):
    with pytest.raises(Rejected) as caught:
        decode_audio(data, rate_hz, PARAM)
    assert caught.value.param == PARAM
    assert caught.value.message.startswith(PARAM)
    return caught.value


def test_samples_at_the_wanted_rate_are_untouched():
    """One channel, float32, to the bit."""
    samples = decode_audio(encoded(SINE, 16_000, subtype="FLOAT"), 16_000, PARAM)

    assert (samples.dtype, samples.flags.c_contiguous) == (np.float32, True)
    assert np.array_equal(samples, SINE)


def test_channels_are_averaged():
    """Opposite ones cancel."""
    assert not decode_audio(encoded(STEREO, 16_000, subtype="FLOAT"), 16_000, PARAM).any()
    both = np.stack([SINE, SINE / 2], axis=1)
    assert np.allclose(decode_audio(encoded(both, 16_000, subtype="FLOAT"), 16_000, PARAM), SINE * 0.75)


@pytest.mark.parametrize(("rate_hz", "length"), [(16_000, 1600), (48_000, 4800), (8_000, 800), (24_000, 2400)])
def test_another_rate_is_resampled(rate_hz, length):
    """As long as before, and the same tone."""
    samples = decode_audio(encoded(SINE, 48_000, subtype="FLOAT"), rate_hz, PARAM)

    assert len(samples) == length
    middle = slice(length // 4, length * 3 // 4)
    expected = np.sin(np.arange(length) * (48_000 / rate_hz) / 20) / 2
    assert np.abs(samples - expected)[middle].max() < 0.01


@pytest.mark.parametrize(
    ("kind", "subtype"),
    [
        ("WAV", "PCM_16"),
        ("WAV", "PCM_U8"),
        ("FLAC", None),
        ("OGG", "VORBIS"),
        ("OGG", "OPUS"),
        ("MP3", None),
        ("AIFF", None),
        ("WAV", "ULAW"),
        ("WAV", "GSM610"),
        ("AU", "G721_32"),
    ],
)
def test_the_usual_formats_decode(kind, subtype):
    """Near enough for the lossy ones, of which some come in whole frames; telephone codecs are among them."""
    samples = decode_audio(encoded(SINE, 48_000, kind, subtype), 48_000, PARAM)

    assert 4500 < len(samples) < 6500
    assert 0.3 < np.abs(samples).max() < 0.7


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x7FFFFFFF, 0])
@pytest.mark.parametrize("also_in_the_head", [True, False])
def test_a_wav_that_was_piped_is_read_to_its_end(size, also_in_the_head):
    """Its writer did not know the length, and wrote the largest or none; nobody believes it."""
    data = bytearray(encoded(STEREO, 48_000))
    at = data.index(b"data") + 4
    data[at : at + 4] = struct.pack("<I", size)
    if also_in_the_head:
        data[4:8] = struct.pack("<I", size)

    assert len(decode_audio(bytes(data), 48_000, PARAM)) == 4800


def test_a_wav_without_samples_is_empty_whatever_follows():
    """A list of its title is no recording."""
    bare = encoded(np.zeros((0, 1), np.float32), 16_000)
    titled = bare + b"LIST" + struct.pack("<I", 4) + b"INFO"

    for data in (bare, titled):
        error = refused(data)
        assert (error.code, error.message) == ("empty_media", f"{PARAM}: empty audio, 0 samples")


def test_a_recording_too_short_to_have_a_sample_at_the_wanted_rate_is_empty():
    """Ten samples at 2 GHz are nothing at 16 kHz."""
    assert refused(encoded(np.zeros(10, np.int16), 2**31 - 1)).code == "empty_media"


def test_no_bytes_are_told_as_such():
    """Before any decoder is asked."""
    assert (refused(b"").code, refused(b"").message) == ("empty_media", f"{PARAM} is empty")


@pytest.mark.parametrize(
    ("kind", "subtype"),
    [
        *[("WAV", "PCM_16"), ("RF64", "PCM_24"), ("AIFF", "PCM_16"), ("AU", "PCM_16")],
        *[("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("OGG", "OPUS"), ("MP3", None)],
    ],
)
@pytest.mark.parametrize("kept", [0.6, 0.95])
def test_a_recording_that_is_cut_off_is_refused_with_both_numbers(kind, subtype, kept):
    """Truncated is refused, whatever the format; libsndfile takes what is there for the whole."""
    data = encoded(np.tile(SINE, 30), 48_000, kind, subtype)

    error = refused(data[: int(len(data) * kept)])

    assert error.code == "damaged_audio"
    there, of, announced = error.message.partition("damaged: ")[2].split()[:3]
    if kind == "OGG":  # its last page, with the length, is gone
        assert of in ("of", "samples")
    else:
        assert (of, int(announced)) == ("of", 144_000)
    assert int(there) < 144_000


@pytest.mark.parametrize("kind", ["WAV", "AIFF", "AU"])
def test_one_missing_sample_is_missing(kind):
    """The numbers are exact."""
    data = encoded(SINE, 48_000, kind, "PCM_16")

    error = refused(data[:-2])

    assert error.message == (
        f"{PARAM}: the recording is damaged: 4799 of 4800 samples could be decoded, and the file ends too early"
    )


def test_a_damaged_page_of_an_ogg_file_is_found():
    """By its checksum: libsndfile would give what stands before it, without a word."""
    data = bytearray(encoded(np.tile(SINE, 30), 48_000, "OGG", "VORBIS"))
    data[len(data) // 2] ^= 1

    error = refused(bytes(data))

    assert error.code == "damaged_audio"
    assert "of 144000 samples could be decoded" in error.message


def test_what_stands_behind_an_ogg_file_is_not_of_it():
    """Some write a tag there."""
    data = encoded(SINE, 48_000, "OGG", "VORBIS")

    assert np.array_equal(decode_audio(data + b"TAG" + bytes(125), 48_000, PARAM), decode_audio(data, 48_000, PARAM))


@pytest.mark.parametrize(
    ("kind", "subtype"),
    [
        *[("WAV", subtype) for subtype in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ALAW", "ULAW")],
        *[
            ("FLAC", "PCM_S8"),
            ("FLAC", "PCM_16"),
            ("FLAC", "PCM_24"),
            ("MP3", None),
            ("OGG", "VORBIS"),
            ("OGG", "OPUS"),
        ],
    ],
)
@pytest.mark.parametrize("channels", [1, 2])
def test_samples_are_those_that_libsndfile_reads(kind, subtype, channels):
    """Of every depth, to the last bit, channels averaged."""
    data = encoded(STEREO[:, :channels] if channels == 2 else SINE, 48_000, kind, subtype)
    reference, _ = soundfile.read(io.BytesIO(data), dtype="float32", always_2d=True)

    assert np.array_equal(decode_audio(data, 48_000, PARAM), reference.mean(axis=1, dtype=np.float32))


def test_a_plan_refuses_what_is_cut_off():
    """From the header alone, where that tells."""
    with pytest.raises(Rejected, match="4799 of 4800"):
        audio_length(encoded(SINE, 48_000, subtype="PCM_16")[:-2], 48_000, PARAM)


@pytest.mark.parametrize(
    "data", [b"hello" * 100, bytes(100), b"RIFF", b"RIFF\0\0\0\0WAVE", b"OggS" + bytes(60), b"ID3"]
)
def test_bytes_that_are_no_audio_are_refused(data):
    """The type is taken from the bytes."""
    assert refused(data).code == "unsupported_audio"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_samples_that_are_no_numbers_are_refused(value):
    """A float WAV can hold them; a feature must not."""
    samples = SINE.copy()
    samples[100] = value

    assert refused(encoded(samples, 16_000, subtype="FLOAT")).code == "damaged_audio"


def test_a_long_recording_is_refused_from_its_header_with_both_numbers():
    """Twenty minutes of silence in a small file: stopped before the samples exist."""
    file = io.BytesIO()
    with soundfile.SoundFile(file, "w", 8_000, 1, format="OGG", subtype="VORBIS") as writing:
        for _ in range(1200):
            writing.write(np.zeros(8_000, np.int16))
    assert len(file.getvalue()) < 100_000

    error = refused(file.getvalue())

    assert (error.code, error.message) == ("audio_too_long", f"{PARAM} lasts 1200.0 s; the limit is 600 s")


def test_the_longest_recording_is_taken():
    """The limit itself is allowed; a sample more is not."""
    longest = int(MAX_DURATION_S) * 100

    assert len(decode_audio(encoded(np.zeros(longest, np.int16), 100), 100, PARAM)) == longest
    assert refused(encoded(np.zeros(longest + 1, np.int16), 100), 100).code == "audio_too_long"


def test_many_channels_at_a_high_rate_are_refused_before_they_are_decoded():
    """Short enough, and yet twelve gigabytes: a FLAC of silence costs nothing to send."""
    data = bytearray(encoded(np.zeros((4096, 8), np.int16), 655_350, "FLAC"))
    frames = 655_350 * 500
    packed = (
        int.from_bytes(data[18:26], "big") & ~((1 << 36) - 1) | frames
    )  # STREAMINFO: the last 36 bits are the length
    data[18:26] = packed.to_bytes(8, "big")

    error = refused(bytes(data))

    assert (error.code, error.status) == ("audio_too_large", 413)
    assert error.message == f"{PARAM} has {frames * 8} samples in 8 channels; the limit is {MAX_SAMPLES}"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # libsndfile may seek before the start
def test_a_damaged_recording_is_refused_and_never_crashes():
    """Bytes changed at random in files of every kind: samples or a refusal, nothing else."""
    rng = np.random.default_rng(3)
    seeds = [encoded(SINE, 16_000, kind) for kind in ("WAV", "FLAC", "OGG", "MP3", "AIFF", "AU", "CAF", "W64")]
    outcomes = set()
    for number in range(900):
        data = bytearray(seeds[number % len(seeds)])
        for _ in range(rng.integers(1, 4)):
            data[rng.integers(0, min(len(data), 120))] = rng.integers(0, 256)
        try:
            outcomes.add(decode_audio(bytes(data), 16_000, PARAM).ndim)
        except Rejected as error:
            outcomes.add(error.code)

    assert {1, "unsupported_audio", "empty_media", "audio_too_long"} <= outcomes
