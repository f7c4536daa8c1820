"""Sound in the containers of videos, alone and beside one: all that FFmpeg finds, and refusals with both numbers."""

import io

import av
import numpy as np
import pytest
import soundfile
import soxr

from forebay import Rejected
from tests.support.media import package_file
from tests.support.sounds import decoded, sounding, tone
from tests.support.videos import encoded as film
from tests.support.videos import shades
from workers.decode import decode_audio, decode_video
from workers.decode.audio import audio_length

PARAM = "audio_data[2]"
KINDS = [
    *[("aac", "mp4"), ("aac", "ipod"), ("aac", "mov"), ("aac", "adts"), ("alac", "ipod"), ("aac", "matroska")],
    *[("libopus", "webm"), ("libopus", "matroska"), ("libopus", "mp4"), ("libmp3lame", "mp4"), ("flac", "matroska")],
    *[("pcm_s16le", "matroska"), ("pcm_s24le", "mov"), ("pcm_f32le", "matroska"), ("pcm_s16le", "avi")],
    *[("libmp3lame", "avi"), ("pcm_mulaw", "mov"), ("pcm_u8", "avi"), ("eac3", "mp4")],
]
EXACT = [("pcm_s16le", "matroska"), ("pcm_s24le", "mov"), ("flac", "matroska"), ("alac", "ipod"), ("pcm_f32le", "mov")]


def refused(data: bytes, read=decode_audio) -> Rejected:
    with pytest.raises(Rejected) as caught:
        read(data, 48_000, PARAM)
    assert caught.value.param == PARAM
    assert caught.value.message.startswith(PARAM)
    return caught.value


@pytest.mark.parametrize(("codec", "kind", "beside"), [(*one, beside) for one in KINDS for beside in (False, True)])
def test_sound_in_a_container_is_all_that_is_in_it(codec, kind, beside):
    """The whole of it as FFmpeg decodes it, channels averaged, to the last bit; a video beside it is passed by."""
    beside = beside and kind not in ("adts", "ipod", "webm")  # those take no H.264
    data = sounding(tone(), codec, kind, video=beside, **({"strict": "-2"} if codec == "libopus" else {}))
    reference, rate = decoded(data)

    samples = decode_audio(data, rate, PARAM)

    assert rate == 48_000
    assert len(samples) >= 48_000 - 1
    assert np.array_equal(samples, reference.mean(axis=1, dtype=np.float32))


@pytest.mark.parametrize(("codec", "kind"), EXACT)
def test_what_is_kept_without_loss_comes_back_without_loss(codec, kind):
    """Scaled as libsndfile scales the same samples."""
    wave = io.BytesIO()
    soundfile.write(wave, tone(), 48_000, format="WAV", subtype="PCM_16")
    sixteen = soundfile.read(io.BytesIO(wave.getvalue()), dtype="float32")[0]

    samples = decode_audio(sounding(sixteen, codec, kind), 48_000, PARAM)

    assert np.array_equal(samples, decode_audio(wave.getvalue(), 48_000, PARAM))


def test_a_track_is_resampled_after_its_channels_are_averaged():
    """Along its time, whichever axis that was: two samples of a plane are no two channels."""
    data = sounding(tone(), "pcm_s16le", "matroska")

    samples = decode_audio(data, 16_000, PARAM)

    assert len(samples) == 16_000
    assert np.array_equal(samples, soxr.resample(decode_audio(data, 48_000, PARAM), 48_000, 16_000))


@pytest.mark.parametrize(("layout", "channels"), [("mono", 1), ("stereo", 2), ("5.1", 6)])
def test_every_channel_counts_alike(layout, channels):
    """Mono is left as it is; six are averaged."""
    sound = tone(channels=channels)

    samples = decode_audio(sounding(sound, "pcm_f32le", "matroska", layout=layout), 48_000, PARAM)

    assert np.allclose(samples, sound.mean(axis=1), atol=1e-7)


def test_one_file_is_a_video_and_a_recording():
    """Its frames where a video is asked for, its sound where a recording is."""
    data = sounding(tone(), "aac", "mp4", video=True)

    assert decode_video(data, lambda clip: range(clip.frames), "video_data").clip.frames == 10
    assert len(decode_audio(data, 48_000, PARAM)) > 47_000


def test_a_flac_from_a_pipe_is_read_to_its_end():
    """Its header leaves the number of samples at nought, which libsndfile takes for endless."""
    file = io.BytesIO()
    soundfile.write(file, tone(), 48_000, format="FLAC")
    data = bytearray(file.getvalue())
    data[18:26] = (int.from_bytes(data[18:26], "big") & ~((1 << 36) - 1)).to_bytes(8, "big")

    samples = decode_audio(bytes(data), 48_000, PARAM)

    assert np.array_equal(samples, decode_audio(file.getvalue(), 48_000, PARAM))


def test_an_mp3_that_counts_nothing_is_read_to_its_end():
    """Without the first frame that counts the others, its length is a guess from the bit rate."""
    data = sounding(tone(2), "libmp3lame", "mp3", container={"write_xing": "0"}, q="9")
    assert b"Xing" not in data[:1000]

    samples = decode_audio(data, 48_000, PARAM)

    assert np.array_equal(samples, decoded(data)[0].mean(axis=1, dtype=np.float32))
    assert len(samples) >= 96_000


def test_a_recording_that_is_longer_than_it_says_is_stopped_while_it_is_decoded():
    """C034: twenty minutes of silence at 6 kb/s, streamed, so that no header tells a length; a small file."""
    silence = np.zeros((8_000 * 1200, 1), np.float32)
    options = {"b": "6000", "compression_level": "0", "frame_duration": "60"}
    data = sounding(silence, "libopus", "webm", rate_hz=8_000, layout="mono", container={"live": "1"}, **options)
    assert len(data) < 1_000_000

    error = refused(data)

    assert (error.code, error.status) == ("audio_too_long", 400)
    assert error.message.startswith(f"{PARAM} lasts at least 600.0")
    assert error.message.endswith(" s; the limit is 600 s")
    assert refused(data, audio_length).message == f"{PARAM} lasts 1200.0 s; the limit is 600 s"


def test_a_recording_that_says_it_is_too_long_is_not_decoded(monkeypatch):
    """From the header of its container."""
    monkeypatch.setattr("workers.decode.track._Line", None)
    monkeypatch.setattr("workers.decode.audio_limits.MAX_DURATION_S", 0.5)

    for read in (decode_audio, audio_length):
        error = refused(sounding(tone()), read)
        assert (error.code, error.message) == ("audio_too_long", f"{PARAM} lasts 1.0 s; the limit is 0 s")


@pytest.mark.parametrize(
    ("codec", "kind", "container"),
    [
        ("aac", "mp4", {"movflags": "faststart"}),
        ("pcm_s16le", "mov", {"movflags": "faststart"}),
        *[("libopus", "webm", {}), ("flac", "matroska", {})],
    ],
)
def test_a_track_that_is_cut_off_is_refused_with_both_numbers(codec, kind, container):
    """How many samples there are, and how many there should be."""
    data = sounding(tone(4), codec, kind, container=container)
    cut = data[: len(data) * 6 // 10]

    error = refused(cut)

    there, _, announced = error.message.partition("damaged: ")[2].split()[:3]
    assert error.code == "damaged_audio"
    assert error.message.endswith(", and the file ends too early")
    assert int(announced) == pytest.approx(192_000, abs=2000)
    assert 80_000 < int(there) < 150_000
    assert refused(cut, audio_length).code == "damaged_audio"


def test_a_track_in_an_avi_that_is_cut_off_is_refused():
    """Its length is worked out from what is there, so the second number is lost with the end."""
    data = sounding(tone(4), "pcm_s16le", "avi")

    error = refused(data[: len(data) * 6 // 10])

    assert error.code == "damaged_audio"
    assert error.message.endswith("samples could be decoded, and the file ends too early")


def test_a_file_whose_index_is_cut_off_cannot_be_opened():
    """An index at the end is the first to go."""
    data = sounding(tone())

    assert refused(data[: len(data) * 9 // 10]).code == "damaged_audio"


def test_damage_in_the_middle_is_refused_with_both_numbers():
    """A decoder that can go no further says how far it came."""
    data = bytearray(sounding(tone(4), "aac", "adts"))
    middle = len(data) // 2
    data[middle : middle + 3000] = bytes(3000)

    error = refused(bytes(data))

    assert error.code == "damaged_audio"
    assert "could be decoded" in error.message


def test_a_video_without_sound_is_no_recording():
    """It is told as that, and not as a damaged one."""
    error = refused(film(shades(3)))

    assert (error.code, error.message) == ("unsupported_audio", f"{PARAM}: the file has no sound, only other streams")


def test_a_codec_that_was_not_chosen_is_refused_by_name():
    """Each decoder is a parser that strangers may feed."""
    error = refused(sounding(tone(), "mp2", "matroska"))

    assert (error.code, error.message) == ("unsupported_audio", f"{PARAM}: sound coded as mp2 is not read")


def test_sound_that_changes_its_rate_is_refused():
    """Nobody could say at which rate the whole of it is; joined streams do that."""
    data = sounding(tone(), "aac", "adts") + sounding(tone(rate_hz=16_000), "aac", "adts", rate_hz=16_000)

    error = refused(data)

    assert error.message == f"{PARAM}: the sound changes its rate from 48000 to 16000 Hz"


@pytest.mark.parametrize(
    "data",
    [
        b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nhttp://127.0.0.1:9/part.aac\n#EXT-X-ENDLIST\n",
        b"ffconcat version 1.0\nfile '/etc/hostname'\n",
        b"RIFF....AVIX" + bytes(100),
        *[b"GIF89a" + bytes(60), b"FORM\0\0\0\x32ILBM" + bytes(60), b"Creative Voice File\x1a" + bytes(60)],
    ],
)
def test_playlists_and_what_nobody_sends_are_not_opened(data):
    """The reader is chosen by the first bytes out of a short list."""
    assert refused(data).code == "unsupported_audio"


@pytest.mark.parametrize(("codec", "kind"), KINDS)
def test_a_plan_knows_the_length(codec, kind):
    """To a frame of the codec; exactly where nothing is lost."""
    data = sounding(tone(), codec, kind, **({"strict": "-2"} if codec == "libopus" else {}))

    told, there = audio_length(data, 48_000, PARAM), len(decode_audio(data, 48_000, PARAM))

    is_near = kind == "avi" or codec in ("aac", "libopus", "libmp3lame", "eac3")
    assert abs(told - there) <= (2304 if is_near else 0)


@pytest.mark.filterwarnings("error")
def test_nothing_is_printed_about_a_strangers_file(capfd):
    """mpg123 comments on what it reads, libtiff on what it cannot; the worker's log is ours."""
    file = io.BytesIO()
    soundfile.write(file, tone(3), 48_000, format="MP3")
    data = file.getvalue()

    refused(data[: len(data) // 2])

    assert capfd.readouterr() == ("", "")


def test_a_recording_of_a_package_beside_what_another_library_reads():
    """Speech as it is sent: the same samples from WAV, and from a WebM made of it."""
    path = package_file("pytest_audioeval", "samples/audio/en/hello_world.wav")
    spoken, rate = soundfile.read(path, dtype="float32", always_2d=True)

    data = sounding(spoken, "pcm_f32le", "matroska", rate_hz=rate, layout="mono")

    assert np.array_equal(decode_audio(data, rate, PARAM), spoken[:, 0])
    assert av.open(io.BytesIO(data)).streams.audio[0].rate == rate
