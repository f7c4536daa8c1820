"""Every code that an error of Forebay can have, with its status, its meaning, and what the caller can do.

``docs/errors.md`` shows this table, and a test holds both against every place that raises one. A model package may have
codes of its own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """One code. ``remedy`` is what the caller can do; of a 5xx it can be sent again, after ``Retry-After`` if given."""

    status: int
    meaning: str
    remedy: str


_AGAIN = "Send it again."
_LATER = "Send it again after `Retry-After`."
_REPORT = "Report it with its rid; the log has more."

CODES: dict[str, Code] = {
    # the body
    "invalid_json": Code(400, "The body is no JSON object, or holds NaN or infinity.", "Send strict JSON."),
    "invalid_request": Code(400, "A field is of another type, or out of its bounds.", "Mend the field that is named."),
    "unsupported_content_type": Code(415, "The body is not sent as JSON.", "Send `Content-Type: application/json`."),
    "body_too_large": Code(413, "The body is larger than `FOREBAY_MAX_BODY_BYTES`.", "Send less."),
    "invalid_form": Code(400, "A form that is none, or without its one file.", "Send one file, or the bytes alone."),
    "request_too_large": Code(413, "A request's media are more than `FOREBAY_MAX_REQUEST_BYTES`.", "Send less."),
    "field_too_large": Code(400, "A field that is carried unread is larger than 1 MiB.", "Send less."),
    "length_mismatch": Code(
        400,
        "A list has another length than its batch, or than there are items that it is about.",
        "One entry for each.",
    ),
    "batch_too_large": Code(400, "More prompts than `FOREBAY_MAX_PROMPTS`.", "Split the batch."),
    "invalid_rid": Code(
        400, "A request id that is none.", "1 to 128 printable characters without spaces; not a dot or two."
    ),
    "duplicate_rid": Code(
        409, "The id is of a request that is running; 400: it stands twice in a batch.", "Take another."
    ),
    "request_not_found": Code(404, "No request has that id, or it ended long ago.", "Results are kept ten minutes."),
    "no_events": Code(409, "The request is answered on its own connection.", "Use `POST /v1/requests`."),
    "invalid_http": Code(400, "What came is no HTTP request, or its head is too long.", "The bound is told."),
    "not_found": Code(404, "There is no such path, or it is switched off.", "`/docs` lists those there are."),
    "method_not_allowed": Code(405, "The path does not take that method.", "`Allow` names those it takes."),
    # who asks
    "invalid_api_key": Code(401, "No API key, or an unknown one.", "Send `Authorization: Bearer KEY`."),
    "not_permitted": Code(403, "The key is not an operator's.", "Ask with one that is."),
    "too_many_requests": Code(429, "The tenant has as many live requests as it may.", _LATER),
    "too_many_bytes": Code(429, "The tenant has as many media bytes under way as it may.", _LATER),
    "rate_limited": Code(429, "The tenant asks more often than it may.", _LATER),
    "too_many_followers": Code(503, "As many callers follow requests as one process serves.", _LATER),
    "invalid_hashes": Code(400, "`mm_hashes` has another shape than the request.", "Flat for one, nested for a batch."),
    "invalid_text": Code(400, "A text holds a lone surrogate.", "Send Unicode text."),
    "invalid_number": Code(400, "A number is not finite, or beyond 64 bits.", "Send it as a string."),
    # the model
    "model_not_found": Code(404, "No worker serves that model.", "`/v1/models` lists those that are."),
    "model_required": Code(400, "Several models are served, and none was named.", "Name one."),
    "engine_away": Code(503, "The model's scheduler was there lately, and is not now.", _LATER),
    "no_engine": Code(409, "The model's features can be made, but nothing here runs it.", "Use `/v1/preprocess`."),
    # the prompt
    "invalid_prompt": Code(400, "Text and ids are both there, or neither, or empty.", "Send one of them."),
    "empty_prompt": Code(400, "The prompt has no token.", "Send a prompt."),
    "invalid_token_id": Code(400, "An id outside the vocabulary.", "The valid range is told."),
    "no_tokenizer": Code(400, "The model was started without a tokenizer.", "Send `input_ids`."),
    "no_chat_template": Code(400, "The model was started without a chat template.", "Use `/generate`."),
    "chat_template": Code(400, "The model's chat template does not take these messages.", "Its own words are told."),
    "placeholder_mismatch": Code(400, "Another number of placeholders than of items.", "Both counts are told."),
    "prompt_too_long": Code(
        400, "With its media the prompt is longer than the model or its engine takes.", "Send less."
    ),
    # extensions
    "extensions_too_large": Code(400, "The extension map is larger than `FOREBAY_MAX_EXTENSION_BYTES`.", "Send less."),
    "extension_too_deep": Code(400, "A value is nested deeper than `FOREBAY_MAX_EXTENSION_DEPTH`.", "Flatten it."),
    "unsupported_extensions": Code(400, "The model's processor takes no extension fields.", "Leave them out."),
    "invalid_extensions": Code(400, "The processor's own model refuses the map.", "The path and the rule are told."),
    # media
    "invalid_media": Code(400, "An item is neither a string nor an object with a URL.", "Its place is told."),
    "invalid_base64": Code(400, "An item is not base64.", "Its place and beginning are told."),
    "invalid_data_url": Code(400, "A `data:` URL without a comma or `;base64`.", "Mend the URL."),
    "unsupported_source": Code(400, "A kind of source that is not fetched.", "Send base64 or a `data:` URL."),
    "invalid_url": Code(400, "A URL that is none, or that two readers could take for two hosts.", "Mend the URL."),
    "blocked_address": Code(400, "A URL to where nothing is fetched from.", "Send the bytes."),
    "too_many_redirects": Code(400, "A URL that redirects more than five times.", "Send the last of them."),
    "media_unavailable": Code(400, "Whoever has the item says that it is not to be had.", "The status is told."),
    "media_fetch_failed": Code(502, "Whoever has the item does not answer as it should.", _LATER),
    "media_fetch_timeout": Code(504, "Whoever has the item takes too long.", _LATER),
    "empty_media": Code(400, "An item without a byte.", "Its place is told."),
    "media_not_found": Code(404, "The tenant has no upload of that digest, or no longer.", "Upload it again."),
    "media_too_slow": Code(400, "Decoding an item takes longer than it may.", "Send a smaller one."),
    "media_too_costly": Code(413, "Decoding an item takes more memory than it may.", "Send a smaller one."),
    "media_quarantined": Code(400, "An item has ended every worker that decoded it.", "Send another."),
    "media_too_large": Code(413, "An item is larger than `FOREBAY_MAX_ITEM_BYTES`.", "Send a smaller one."),
    "broadcast_too_large": Code(413, "One item for a whole batch would become too much.", "Split the batch."),
    "too_many_items": Code(400, "More items than the model or the deployment takes.", "Both numbers are told."),
    "unsupported_modality": Code(400, "The model takes no such media.", "`/v1/processors` tells what it takes."),
    "unsupported_image": Code(
        400, "No image format that is known.", "JPEG, PNG, WebP, AVIF, GIF, BMP, TIFF; HEIC by an extra."
    ),
    "damaged_image": Code(400, "An image that cannot be decoded.", "Send a whole one."),
    "truncated_image": Code(400, "An image that ends too early.", "Send a whole one."),
    "empty_image": Code(400, "An image without a pixel.", "Send a whole one."),
    "image_too_large": Code(413, "More pixels than are decoded.", "Both numbers are told."),
    "aspect_ratio": Code(
        400, "An image that is too thin for the model.", "At most 200 to 1 for those that come with Forebay."
    ),
    "unsupported_audio": Code(400, "No sound, or none that is read.", "WAV, FLAC, Ogg, MP3, M4A, MP4, WebM, MKV."),
    "damaged_audio": Code(400, "A recording that ends too early or cannot be decoded.", "Both numbers are told."),
    "audio_too_long": Code(400, "A recording that is longer than is decoded.", "Both lengths are told."),
    "audio_too_short": Code(400, "A recording that is shorter than the model hears.", "Both lengths are told."),
    "audio_too_large": Code(413, "More samples than are decoded.", "Both numbers are told."),
    "unsupported_video": Code(400, "No video, or none that is read.", "MP4, MOV, WebM, MKV, AVI, GIF, animated WebP."),
    "damaged_video": Code(400, "A video that ends too early or cannot be decoded.", "Both numbers of frames are told."),
    "video_too_long": Code(400, "A video that is longer than is decoded.", "Both lengths are told."),
    "video_too_large": Code(413, "More pixels than are decoded.", "Both numbers are told."),
    "unsuitable_video": Code(400, "The model cannot take the frames that were asked for.", "Both numbers are told."),
    "precomputed_off": Code(400, "A feature instead of media, where none is taken.", "Send the media."),
    "precomputed_unsupported": Code(400, "The model's processor takes no ready-made feature.", "Send the media."),
    "invalid_precomputed": Code(
        400, "A ready-made feature that is not what the model has of such an item.", "Both shapes are told."
    ),
    "features_too_large": Code(413, "The features are larger than the whole feature pool.", "Send smaller items."),
    # what the system lacks
    "overloaded": Code(503, "More requests are under way than `FOREBAY_MAX_LIVE`.", _LATER),
    "no_workers": Code(503, "No worker is up.", _LATER),
    "processor_broken": Code(
        503, "The model's package cannot be loaded.", "The operator sees why in `/v1/processors`."
    ),
    "no_processor": Code(503, "The node has lost the model's processor.", _AGAIN),
    "not_queued": Code(503, "The request could not be queued.", _LATER),
    "pool_full": Code(503, "There was no room in the feature pool in time.", _LATER),
    "pool_damaged": Code(503, "Somebody cut the feature pool's file off.", _AGAIN),
    "media_store_full": Code(503, "The media store has no room.", _LATER),
    "media_missing": Code(503, "Media were gone before they were read.", _AGAIN),
    "redis_unavailable": Code(503, "The request store cannot be reached.", _LATER),
    "redis_full": Code(503, "The request store has no memory left for new requests.", _LATER),
    "redis_refused": Code(503, "The request store refused a step.", _LATER),
    "request_lost": Code(503, "The request store no longer knows the request.", _AGAIN),
    "answer_restarted": Code(503, "A chat stream was begun anew and went on differently.", _AGAIN),
    # ends
    "cancelled": Code(499, "The request was cancelled.", "Nothing is left of it."),
    "deadline_exceeded": Code(504, "The deadline passed before the answer.", "Give more time, or send less."),
    "no_end": Code(504, "The deadline passed and no end was recorded.", _AGAIN),
    "out_of_memory": Code(503, "Preprocessing ran out of memory.", "Send smaller items."),
    "time_limit": Code(504, "Preprocessing took too long.", "Send smaller items."),
    "features_gone": Code(500, "The features were gone after every attempt.", _AGAIN),
    "abandoned": Code(500, "Every attempt lost its worker or its scheduler.", _REPORT),
    "invalid_result": Code(500, "The model's processor returned what cannot be.", _REPORT),
    "internal_error": Code(500, "Nobody foresaw it.", _REPORT),
}

ALSO: dict[str, frozenset[int]] = {"duplicate_rid": frozenset({400})}
"""Codes with another status besides the usual one."""
