"""What users of multimodal preprocessing have really hit, and the tests that hold the right answer to each.

The numbers are those that the tests' own docstrings give. A test may be renamed, moved or split, but not in silence.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.support.media_cases import MEDIA_CASES

ROOT = Path(__file__).parents[1]

BODY, BATCH, SOURCES = "tests/api/test_body.py", "tests/api/test_body_batch.py", "tests/api/test_sources.py"
ANSWERS, CHAT, NUMBERS = "tests/api/test_batches.py", "tests/api/test_chat_body.py", "tests/api/test_strict_numbers.py"
PROCESS, SUBMISSION = "tests/api/test_api_process.py", "tests/api/test_submission.py"
DRIVE, LAYOUT, CHECKS = (
    "tests/forebay/test_drive.py",
    "tests/forebay/test_layout.py",
    "tests/forebay/test_validation.py",
)
TEMPLATES, CONVERSATION = "tests/forebay/test_chat.py", "tests/processors/test_qwen_conversation.py"
DRIVER, CACHE, TOGETHER = (f"tests/workers/test_driver{part}.py" for part in ("", "_cache", "_together"))
MAIN, BAD = "tests/system/test_main_job.py", "tests/system/test_bad_input.py"

CLIPS, BAD_CLIPS = "tests/workers/test_decode_video.py", "tests/workers/test_decode_video_bad.py"
FILMS, FILMS_PARITY = "tests/processors/test_qwen_video.py", "tests/processors/test_qwen_video_parity.py"

GEOMETRY, POOL_CASES = "tests/processors/test_qwen_geometry.py", "tests/handoff/test_pool_cases.py"
QUEUE = "tests/system/test_worker_queue.py"

CASES: dict[str, tuple[str, list[str]]] = MEDIA_CASES | {
    # Videos.
    "C021": ("an odd number of frames", [
        f"{FILMS}::test_an_odd_last_frame_is_repeated",
        f"{FILMS}::test_a_group_of_three_takes_two_copies",
        f"{FILMS_PARITY}::test_features_and_grids_of_videos_are_bit_equal",
    ]),
    "C022": ("a video of one frame, and more frames than there are", [
        f"{CLIPS}::test_a_clip_of_one_frame_is_a_clip",
        f"{FILMS}::test_a_clip_of_one_frame_is_taken",
        f"{FILMS}::test_an_odd_last_frame_is_repeated",
        f"{FILMS}::test_more_frames_than_there_are_are_refused_with_both_numbers",
    ]),
    "C023": ("exact frames and times", [
        f"{FILMS}::test_frames_are_chosen_exactly",
        f"{FILMS}::test_qwen3_tells_the_time_of_each_group_as_text",
        f"{FILMS_PARITY}::test_frames_are_chosen_alike",
        f"{CLIPS}::test_exactly_the_frames_that_are_asked_for_are_there",
    ]),
    "C026": ("a damaged or cut-off video", [
        f"{BAD_CLIPS}::test_a_file_that_is_cut_off_is_refused_with_both_numbers",
        f"{BAD_CLIPS}::test_a_file_without_its_index_cannot_be_opened",
        f"{BAD_CLIPS}::test_every_container_tells_that_it_is_cut_off",
        f"{BAD_CLIPS}::test_damage_in_the_middle_is_refused_with_both_numbers",
        f"{BAD_CLIPS}::test_a_file_that_is_cut_off_may_be_taken_for_what_decodes_of_it",
        "tests/workers/test_driver_video.py::test_a_damaged_video_is_refused_unless_the_deployment_salvages",
    ]),
    "C027": ("a WebM without length or number of frames", [
        f"{CLIPS}::test_frames_are_counted_where_the_header_does_not_say",
        f"{FILMS}::test_frames_are_chosen_exactly",
    ]),
    "C029": ("a rotation in the display matrix", [f"{CLIPS}::test_the_display_matrix_is_applied_once"]),
    "C030": ("images and videos mixed, each video with its own rate", [
        f"{FILMS}::test_seconds_a_group_are_each_videos_own",
        f"{FILMS}::test_a_list_of_rates_is_one_for_each_video",
        f"{FILMS}::test_a_list_of_rates_for_other_videos_is_refused_with_both_lengths",
        f"{FILMS_PARITY}::test_each_video_of_a_request_may_have_a_rate_of_its_own",
        "tests/system/test_video.py::test_each_video_of_a_request_has_its_own_rate",
        f"{FILMS_PARITY}::test_prompts_of_images_and_videos_are_equal_to_the_last_position",
    ]),
    # Positions.
    "C043": ("a still image whose time must not be scaled", [
        f"{FILMS}::test_a_still_image_has_one_time_whatever_seconds_mean",
        f"{FILMS_PARITY}::test_prompts_of_images_and_videos_are_equal_to_the_last_position",
    ]),
    "C044": ("a video whose start is added after scaling", [
        f"{FILMS}::test_the_start_of_a_video_is_added_after_its_times_are_scaled",
        f"{FILMS_PARITY}::test_prompts_of_images_and_videos_are_equal_to_the_last_position",
    ]),
    "C047": ("seconds a group that are lost on the way", [
        f"{FILMS}::test_seconds_reach_the_positions",
        f"{FILMS}::test_seconds_that_are_lost_are_an_error",
        "tests/workers/test_driver_video.py::test_seconds_a_group_outlive_the_cache",
    ]),
    # Token layout.
    "C037": ("more or fewer placeholders than items", [
        f"{LAYOUT}::test_other_counts_are_refused_with_both_numbers",
        f"{BAD}::test_each_mistake_has_its_code_and_its_sentence",
        f"{DRIVER}::test_the_callers_mistake_is_rejected_and_leaves_nothing",
    ]),
    "C038": ("a marker that is spelled out in a text or a tool's answer", [
        f"{TEMPLATES}::test_a_special_token_that_is_spelled_out_is_text",
        f"{CONVERSATION}::test_a_marker_that_is_spelled_out_needs_no_picture",
        "tests/system/test_openai_client.py::test_a_conversation_about_a_picture_is_the_template_rendered",
    ]),
    "C040": ("a length limit within an image; a count by two formulas", [
        "tests/scheduler/test_scheduler_loop.py::test_a_prompt_that_can_never_fit_is_refused_with_both_numbers",
        f"{CHECKS}::test_one_token_too_many_is_found",
        f"{CHECKS}::test_rows_and_tokens_agree_where_the_family_says_how",
        f"{CHECKS}::test_spans_and_tokens_agree",
    ]),
    "C041": ("texts and pictures that alternate", [
        f"{CHAT}::test_items_keep_their_order_over_all_messages",
        f"{TEMPLATES}::test_placeholders_stand_where_their_parts_stood",
        f"{LAYOUT}::test_the_ith_placeholder_belongs_to_the_ith_item_of_its_modality",
        f"{CONVERSATION}::test_pictures_stand_where_their_parts_stood_with_their_own_features",
        f"{FILMS}::test_videos_and_images_stand_where_their_parts_stood",
    ]),
    # Hashing.
    "C048": ("pictures of the same values and another shape", [
        "tests/workers/test_identity.py::test_pictures_of_the_same_values_and_another_shape_are_two",
        "tests/processors/test_qwen_folder.py::test_every_setting_that_changes_features_is_in_the_fingerprint",
    ]),
    "C051": ("settings that change features and are not in the key", [
        f"{CACHE}::test_whatever_changes_the_feature_or_its_owner_is_another_entry",
        f"{CACHE}::test_a_default_that_is_spelled_out_is_the_same_entry",
        f"{CACHE}::test_caller_hashes_are_the_requests_own",
        "tests/processors/test_qwen_folder.py::test_every_setting_that_changes_features_is_in_the_fingerprint",
    ]),
    "C054": ("the same image twice in a request, and eviction between", [
        "tests/handoff/test_pool_cache.py::test_an_item_that_stands_there_twice_is_there_until_its_last_reader_has_gone",
        f"{CACHE}::test_the_same_picture_twice_in_one_request_is_made_once",
        "tests/system/test_several_answers.py::test_every_answer_is_about_all_pictures_in_their_order",
    ]),
    # Batches and extensions.
    "C056": ("hashes of a wrong number, nesting or spelling", [
        f"{BATCH}::test_hashes_of_a_batch_are_a_list_for_each_prompt",
        f"{DRIVE}::test_a_list_of_another_length_is_ignored_as_a_whole",
        f"{DRIVE}::test_a_malformed_caller_hash_keeps_that_items_own",
        "tests/api/test_observed.py::test_a_body_is_read_as_sglang_reads_it_or_otherwise_on_purpose",
    ]),
    "C057": ("a batch whose first prompt has no image", [
        f"{BATCH}::test_media_go_to_prompts_by_position_or_to_all",
        f"{DRIVER}::test_a_text_passes_without_a_block",
    ]),
    "C058": ("several answers about several images", [
        f"{ANSWERS}::test_several_answers_of_one_prompt_are_a_list",
        f"{ANSWERS}::test_several_answers_of_a_batch_come_in_rounds",
        f"{BATCH}::test_a_batch_of_one_takes_a_list_of_lists",
        "tests/scheduler/test_samples.py::test_every_answer_reads_the_same_features",
        "tests/system/test_several_answers.py::test_every_answer_is_about_all_pictures_in_their_order",
    ]),
    "C059": ("ids of a batch", [
        f"{BATCH}::test_ids_are_numbered_or_given",
        f"{BATCH}::test_ids_that_cannot_be_refuse_the_call",
        f"{ANSWERS}::test_answers_of_a_batch_keep_their_prompts_ids",
    ]),
    "C061": ("NaN and infinity", [
        f"{BODY}::test_what_is_no_strict_json_object_is_refused",
        f"{BODY}::test_what_could_not_travel_exactly_is_refused_by_its_path",
        f"{NUMBERS}::test_a_number_that_cannot_be_carried_is_refused_in_strict_json_and_queues_nothing",
    ]),
    "C063": ("integers beyond 64 bits", [
        f"{BODY}::test_what_could_not_travel_exactly_is_refused_by_its_path",
        f"{BODY}::test_an_integer_of_thousands_of_digits_is_named_by_its_field",
        f"{NUMBERS}::test_a_number_that_cannot_be_carried_is_refused_in_strict_json_and_queues_nothing",
        f"{NUMBERS}::test_the_largest_number_reaches_the_worker_exactly",
    ]),
    # What a request may look like.
    "C065": ("an image_url that is a string, a null detail, an unknown part", [
        f"{CHAT}::test_every_kind_of_media_part_is_taken",
        f"{CHAT}::test_a_bad_part_is_named_by_its_place",
        "tests/system/test_openai_client.py::test_mistakes_are_errors_of_the_clients_own_kind",
    ]),
    "C066": ("text and ids together, neither, or empty", [
        f"{BODY}::test_a_prompt_is_a_text_or_ids_and_never_both_or_nothing",
        f"{BODY}::test_an_id_is_a_whole_number_that_fits_an_int64",
        f"{BATCH}::test_prompts_that_are_none_refuse_the_call",
    ]),
    "C067": ("an id that is in flight", [
        f"{SUBMISSION}::test_an_id_that_is_running_is_refused_and_its_first_use_is_unharmed",
        f"{SUBMISSION}::test_of_two_processes_that_accept_the_same_id_one_does",
        f"{BAD}::test_an_id_that_is_running_is_refused_and_one_that_has_ended_is_not",
    ]),
    # Base64 and data: URLs.
    "C070": ("data: URLs with parameters, in capitals, without base64 or comma", [
        f"{SOURCES}::test_a_data_url_is_read_whatever_its_parameters",
        f"{SOURCES}::test_a_data_url_that_lacks_something_is_told_what",
        f"{SOURCES}::test_a_message_quotes_at_most_a_short_prefix",
    ]),
    "C071": ("line breaks, blanks and missing padding", [
        f"{SOURCES}::test_base64_is_taken_as_mail_and_scripts_write_it",
        f"{SOURCES}::test_padding_may_lack_one_sign_or_all",
        f"{SOURCES}::test_a_part_of_a_conversation_is_read_as_leniently",
    ]),
    "C074": ("junk in or after base64, and nothing at all", [
        f"{SOURCES}::test_junk_in_or_after_base64_is_refused",
        f"{SOURCES}::test_nothing_is_empty_rather_than_invalid",
    ]),
    # Leaving. In the middle of a fetch, too.
    "C096": ("a caller that leaves or cancels", [
        f"{PROCESS}::test_a_caller_that_leaves_while_it_waits_cancels_its_request",
        f"{PROCESS}::test_a_caller_that_leaves_before_the_first_token_of_its_stream_cancels_it",
        f"{PROCESS}::test_a_caller_that_leaves_in_the_middle_of_a_stream_cancels_it",
        f"{PROCESS}::test_a_caller_that_leaves_after_the_end_changes_nothing",
        "tests/api/test_fetching.py::test_a_request_can_end_while_its_media_are_fetched",
        f"{DRIVER}::test_a_late_result_is_dropped_and_its_block_freed",
        f"{TOGETHER}::test_whoever_is_cancelled_leaves_the_line",
        "tests/system/test_leaving.py::test_a_hundred_callers_that_leave_at_any_moment_leave_nothing",
        "tests/system/test_leaving.py::test_what_has_ended_or_never_was_is_cancelled_the_same_each_time",
    ]),
    "C098": ("a cancelled task that a worker has reserved", [
        "tests/workers/test_reserved.py::test_a_reserved_task_that_is_cancelled_fetches_and_stores_nothing",
        f"{DRIVER}::test_a_cancelled_request_is_not_worked_on",
    ]),
    # Many at once.
    # Sizes.
    "C014": ("an aspect ratio above 200", [
        f"{GEOMETRY}::test_a_picture_too_long_for_its_breadth_is_refused",
        f"{GEOMETRY}::test_a_ratio_a_hair_above_the_limit_is_not_said_to_be_the_limit",
        f"{GEOMETRY}::test_a_ratio_of_exactly_two_hundred_is_accepted",
        "tests/processors/test_qwen_family.py::test_a_thin_picture_is_refused_by_its_place_in_the_request",
        f"{PROCESS}::test_a_stream_that_fails_before_its_first_token_is_an_ordinary_error",
    ]),
    "C015": ("a side shorter than the factor", [
        f"{GEOMETRY}::test_a_picture_is_fitted_to_whole_tokens",
        f"{GEOMETRY}::test_qwen3_counts_in_patches_of_sixteen",
    ]),
    "C018": ("very thin pictures, of which two references disagree", [
        f"{GEOMETRY}::test_a_picture_is_fitted_to_whole_tokens",
    ]),
    "C020": ("pictures of different sizes in one request", [
        f"{GEOMETRY}::test_a_picture_is_fitted_to_whole_tokens",
        "tests/processors/test_qwen_family.py::test_images_of_different_sizes_keep_their_order",
        "tests/processors/test_qwen_parity.py::test_several_pictures_at_once_are_bit_equal",
    ]),
    # Shared memory.
    "C086": ("a process that attaches and ends", [
        f"{POOL_CASES}::test_what_a_worker_wrote_is_there_after_it_has_left",
        f"{POOL_CASES}::test_a_pool_goes_once_by_the_hand_of_whoever_made_it",
    ]),
    "C088": ("a full tmpfs", [
        "tests/handoff/test_pool_tmpfs.py::test_a_1_mb_tmpfs_has_no_room_for_one_large_image",
        "tests/handoff/test_pool_tmpfs.py::test_what_is_reserved_is_there_whatever_others_take",
    ]),
    "C089": ("a worker that dies between writing and saying so", [
        f"{POOL_CASES}::test_what_a_killed_worker_wrote_is_freed_and_the_livings_is_not",
        f"{POOL_CASES}::test_what_was_parked_before_the_death_is_its_tickets",
        "tests/workers/test_janitor.py::test_killed_between_parking_block_and_ticket",
    ]),
    "C090": ("removed while somebody reads", [
        f"{POOL_CASES}::test_a_reader_reads_on_when_the_pool_is_removed",
        f"{POOL_CASES}::test_a_new_pool_under_the_old_name_is_another_one",
    ]),
    # The queue.
    "C091": ("one task, delivered twice", [
        f"{QUEUE}::test_a_message_that_two_workers_have_at_once_gives_one_result",
        f"{QUEUE}::test_a_request_whose_message_comes_three_times_is_answered_and_counted_once",
        f"{QUEUE}::test_the_loser_of_a_race_has_no_block_and_writes_no_end",
        "tests/handoff/transport/test_taking.py::test_nothing_is_written_to_kombus_own_book",
    ]),
    "C092": ("a worker that is killed once, and one that is killed every time", [
        "tests/system/test_lifecycle.py::test_a_killed_child_is_replaced_and_its_request_finishes",
        f"{QUEUE}::test_what_kills_every_child_is_abandoned_and_the_queue_goes_on",
        "tests/workers/test_heir.py::test_what_its_takers_die_over_goes_back_so_often_and_no_more",
    ]),
    "C094": ("a Redis that restarts", [
        "tests/system/test_redis_restarts.py::test_twenty_requests_outlive_three_restarts_in_a_row",
        "tests/handoff/transport/test_taking.py::test_a_task_may_end_after_its_connection",
        f"{PROCESS}::test_ready_means_that_work_could_be_done_now",
    ]),
    "C099": ("code that does not return to Python", [
        f"{QUEUE}::test_a_child_that_does_not_return_to_python_is_killed_and_replaced",
        f"{QUEUE}::test_a_task_that_takes_too_long_ends_and_its_child_goes_on",
    ]),
    "C101": ("what an operator sees of a task", [
        f"{SUBMISSION}::test_an_operator_sees_no_payload_in_the_queue",
        "tests/system/test_operations.py::test_flower_shows_the_task_and_nothing_of_its_payload",
        "tests/system/test_operations.py::test_logs_are_events_without_payload",
    ]),
    "C103": ("which of two references", [
        "tests/processors/test_qwen_parity.py::test_features_and_grids_are_bit_equal",
    ]),
    "C107": ("a reply that is left to the next one", [
        "tests/api/test_cancelled_polls.py::test_a_poll_that_is_left_does_not_answer_the_next_one",
        "tests/api/test_replies.py::test_each_caller_gets_its_own_events_only",
    ]),
    "C109": ("one tokenizer in many threads", [
        "tests/processors/test_qwen_threads.py::test_threads_that_share_a_processor_get_what_one_alone_gets",
    ]),
    "C110": ("another request's image", [
        f"{MAIN}::test_two_hundred_mixed_requests_leave_no_block",
        "tests/system/test_thousand.py::test_of_a_thousand_mixed_requests_each_gets_its_own_answer",
        f"{CACHE}::test_every_request_gets_its_own_picture",
    ]),
}  # fmt: skip


@cache
def names_in(path: Path) -> set[str]:
    """The names of a file's tests, read without running it."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, functions)}


@pytest.mark.parametrize("case", CASES)
def test_every_case_is_held_by_tests_that_are_there(case: str):
    """Whoever renames or removes one learns what it stood for."""
    what, tests = CASES[case]
    named = [test.split("::") for test in tests]

    missing = [name for path, name in named if not (ROOT / path).exists() or name not in names_in(ROOT / path)]

    assert tests
    assert missing == [], f"{case}, {what}: no such test"
