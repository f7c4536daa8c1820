"""The part of the case book about media, where they come from, and numbers: what went wrong, and the tests for it."""

from __future__ import annotations

SOURCES, BAD, DRIVER = "tests/api/test_sources.py", "tests/system/test_bad_input.py", "tests/workers/test_driver.py"
PICTURES, VALUES = "tests/workers/test_decode_image.py", "tests/workers/test_case_values.py"
SOUNDS, TRACKS = "tests/workers/test_decode_audio.py", "tests/workers/test_decode_track.py"
WHISPER = "examples/whisper_tiny_en/tests/test_whisper_processor.py"
FETCHER, GUARD, FETCHING = (
    "tests/api/fetch/test_fetcher.py",
    "tests/api/fetch/test_guard.py",
    "tests/api/test_fetching.py",
)
KERNEL, SIZES = "tests/processors/test_qwen_kernel.py", "tests/processors/test_qwen_geometry.py"

MEDIA_CASES: dict[str, tuple[str, list[str]]] = {
    # Images.
    "C001": ("an EXIF orientation", [
        f"{PICTURES}::test_an_orientation_is_applied_once",
        f"{PICTURES}::test_each_orientation_of_a_jpeg_brings_the_corner_where_a_viewer_shows_it",
        f"{VALUES}::test_a_picture_that_lies_on_its_side_has_the_grid_of_the_upright_one",
        "tests/workers/test_planning.py::test_the_header_tells_the_size_of_the_decoded_picture",
    ]),
    "C003": ("sixteen bits of grey", [
        f"{PICTURES}::test_sixteen_bit_grey_is_scaled_not_clipped",
        f"{PICTURES}::test_sixteen_bit_colour_is_scaled_too",
        f"{VALUES}::test_sixteen_bits_are_not_white",
    ]),
    "C004": ("transparent pixels", [
        f"{PICTURES}::test_transparency_is_composited_on_white",
        f"{PICTURES}::test_a_transparent_palette_colour_is_white",
        f"{PICTURES}::test_a_transparent_colour_of_a_png_is_white",
        f"{PICTURES}::test_a_transparent_colour_of_sixteen_bits_is_white_and_no_other",
        f"{VALUES}::test_transparent_pixels_are_normalised_as_they_look_on_white",
    ]),
    "C006": ("a CMYK JPEG", [
        f"{PICTURES}::test_a_cmyk_jpeg_has_its_colours_the_right_way_round",
        f"{VALUES}::test_a_print_file_is_normalised_as_red",
    ]),
    "C007": ("a truncated image", [
        f"{PICTURES}::test_a_truncated_jpeg_is_refused",
        f"{PICTURES}::test_a_file_of_any_kind_that_was_cut_in_half_is_refused",
        f"{BAD}::test_bad_input_leaves_no_block",
    ]),
    "C008": ("bytes that are no raster image", [
        f"{PICTURES}::test_bytes_that_are_no_image_are_refused",
        f"{PICTURES}::test_no_bytes_are_told_as_such",
        f"{PICTURES}::test_the_formats_that_were_chosen_decode",
        "tests/workers/test_decode_heic.py::test_without_the_extra_it_is_refused_by_its_name",
    ]),
    "C010": ("a decompression bomb", [
        f"{PICTURES}::test_a_bomb_is_refused_from_its_header",
        f"{PICTURES}::test_a_jpeg_bomb_is_refused_by_the_fast_path_too",
        f"{PICTURES}::test_many_frames_cost_what_the_first_one_does",
    ]),
    "C012": ("an animation as an image", [
        f"{PICTURES}::test_an_animation_gives_its_first_frame",
        f"{VALUES}::test_an_animation_is_one_picture",
    ]),
    "C013": ("one pixel, one row, and none", [
        f"{PICTURES}::test_the_axes_are_never_guessed",
        f"{PICTURES}::test_an_image_without_pixels_is_refused",
        f"{VALUES}::test_the_smallest_pictures_have_their_grids",
        f"{SIZES}::test_qwen3_counts_in_patches_of_sixteen",
    ]),
    # Recordings.
    "C033": ("a recording longer than the model's window", [
        f"{WHISPER}::test_thirty_seconds_are_taken",
        f"{WHISPER}::test_one_sample_more_than_thirty_seconds_is_refused_with_both_lengths",
    ]),
    "C034": ("a recording that is small and long", [
        f"{SOUNDS}::test_a_long_recording_is_refused_from_its_header_with_both_numbers",
        f"{TRACKS}::test_a_recording_that_is_longer_than_it_says_is_stopped_while_it_is_decoded",
    ]),
    "C036": ("an empty recording, and one from a pipe", [
        f"{SOUNDS}::test_a_wav_without_samples_is_empty_whatever_follows",
        f"{SOUNDS}::test_a_wav_that_was_piped_is_read_to_its_end",
        f"{WHISPER}::test_empty_audio_is_refused",
    ]),
    # URLs.
    "C075": ("a redirect to where nobody may go", [
        f"{GUARD}::test_every_hop_is_checked",
        f"{GUARD}::test_a_redirect_is_followed",
        f"{GUARD}::test_redirects_have_an_end",
        f"{GUARD}::test_another_port_is_blocked",
    ]),
    "C076": ("a name of the inside", [
        f"{GUARD}::test_a_name_of_the_inside_is_not_dialled",
        f"{GUARD}::test_the_address_that_was_checked_is_the_one_that_is_dialled",
        "tests/api/fetch/test_address.py::test_an_odd_url_is_refused",
    ]),
    "C079": ("a blocked URL beside a good image", [
        f"{FETCHING}::test_a_blocked_url_ends_its_request_once",
        f"{GUARD}::test_an_address_of_the_inside_is_not_dialled",
    ]),
    "C080": ("whose fault a failure over there is", [
        f"{FETCHER}::test_what_is_not_there_is_the_callers_mistake",
        f"{FETCHER}::test_trouble_over_there_may_pass",
        f"{FETCHER}::test_trouble_that_does_not_pass_is_a_502",
        f"{FETCHER}::test_nobody_there_and_unknown_hosts_are_502s",
        "tests/api/fetch/test_address.py::test_an_odd_url_is_refused",
    ]),
    "C081": ("a body that is too large, or lies about its length", [
        f"{FETCHER}::test_too_much_is_refused_by_its_header",
        f"{FETCHER}::test_reading_stops_at_the_limit",
        f"{FETCHER}::test_a_bomb_is_stopped_at_the_limit",
        f"{FETCHER}::test_an_answer_that_is_cut_off_is_trouble_over_there",
    ]),
    "C083": ("a slow server", [
        f"{FETCHER}::test_a_slow_server_is_given_up",
        f"{FETCHER}::test_slow_servers_hold_up_nobody_else_for_ever",
        f"{FETCHER}::test_a_request_that_has_no_time_left_fetches_no_longer",
        f"{GUARD}::test_a_server_that_does_not_speak_tls_is_trouble",
    ]),
    "C084": ("a file: URL outside the roots", [
        "tests/api/fetch/test_files.py::test_every_other_path_sounds_alike",
        "tests/api/fetch/test_files.py::test_without_a_root_nothing_is_read",
        f"{FETCHING}::test_files_are_read_below_their_roots_alone",
        f"{SOURCES}::test_a_path_in_the_letters_of_base64_is_base64",
    ]),
    # Limits of time.
    "C099": ("code that does not return to Python", [
        "tests/system/test_worker_queue.py::test_a_child_that_does_not_return_to_python_is_killed_and_replaced",
        "tests/system/test_worker_queue.py::test_a_task_that_takes_too_long_ends_and_its_child_goes_on",
        f"{DRIVER}::test_work_that_takes_too_long_is_a_504_that_names_the_limit",
    ]),
    # Numbers.
    "C103": ("which reference", [
        f"{VALUES}::test_the_other_backend_of_the_reference_differs_by_its_resize_alone",
        "tests/processors/test_qwen_parity.py::test_features_and_grids_are_bit_equal",
    ]),
    "C104": ("constants, and the order of patches", [
        f"{KERNEL}::test_patches_of_one_token_stand_together",
        f"{KERNEL}::test_inside_a_patch_the_channel_comes_first_and_then_the_temporal_copy",
        f"{KERNEL}::test_black_and_white_have_the_models_own_values",
    ]),
}  # fmt: skip
