"""The bytes behind each text token. A token may hold part of a character, so bytes, not text, are what adds up."""

from __future__ import annotations

from forebay import ConfigurationError, ModelSource


def read_vocabulary(files: ModelSource) -> tuple[bytes, ...]:
    """The bytes of token ``i`` at index ``i``, from ``tokenizer.json``.

    Raises:
        ConfigurationError: naming the file, when it is no byte-level vocabulary.
    """
    file = files.json("tokenizer.json")
    spelled = file.get("model.vocab", dict)
    alphabet = byte_alphabet()
    try:
        return tuple(bytes(alphabet[letter] for letter in word) for word in sorted(spelled, key=spelled.__getitem__))
    except KeyError as error:
        raise ConfigurationError(f"{file.path}: not a byte-level vocabulary: it has the letter {error}") from error


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-in for each byte: itself where it prints, else the next letter from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + index): byte for index, byte in enumerate(hidden)}
