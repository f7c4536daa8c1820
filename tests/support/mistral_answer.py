"""What Mistral's library makes of pictures and a question; a program for the environment that has the library.

Its arguments are the pictures' files. It prints JSON: ``ids``, and ``sha256`` of each picture's pixels.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import mistral_common
import PIL.Image
import PIL.ImageOps
from mistral_common.protocol.instruct.chunk import ImageChunk, TextChunk
from mistral_common.protocol.instruct.messages import UserMessage
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

QUESTION = "Describe."

tokenizer = MistralTokenizer.from_file(str(Path(mistral_common.__file__).parent / "data" / "tekken_240911.json"))
# The library looks at no orientation, and would see a photo on its side.
pictures = [PIL.ImageOps.exif_transpose(PIL.Image.open(name)) for name in sys.argv[1:]]
chunks = [*(ImageChunk(image=picture) for picture in pictures), TextChunk(text=QUESTION)]
made = tokenizer.encode_chat_completion(ChatCompletionRequest(messages=[UserMessage(content=chunks)]))
pixels = [hashlib.sha256(image.tobytes()).hexdigest() for image in made.images]  # tobytes is in C order
print(json.dumps({"ids": made.tokens, "sha256": pixels}))
