# SPDX-License-Identifier: Apache-2.0
"""Text for a character-level model: where it comes from, its vocabulary, its batches.

The default text is Python's own standard library, docstrings and comments included: every machine
that runs the demo has it. Files are taken in sorted order and every tenth is held out, so a machine
always gets the same training and validation text.

    corpus = load_corpus(None)                  # or load_corpus("book.txt")
    inputs, targets = corpus.train.random_batch(8, 128, seed=1)
"""

import sysconfig
import tokenize
from dataclasses import dataclass
from pathlib import Path

import torch

from char_gpt.errors import DemoError

HELD_OUT_EVERY = 10
MAX_CHARACTERS = 32_000_000
VOCABULARY_COVERAGE = 0.9999
UNKNOWN = "\N{REPLACEMENT CHARACTER}"

# Test suites and tables of character codes are poor reading; site-packages is not the standard
# library; _sysconfigdata is generated and differs from machine to machine.
_SKIPPED_FOLDERS = {
    "test",
    "tests",
    "idle_test",
    "encodings",
    "site-packages",
    "dist-packages",
    "__pycache__",
}
_SKIPPED_PREFIX = "_sysconfigdata"


class Vocabulary:
    """The characters a model knows; token 0 stands for all others.

    The most frequent characters that cover 99.99 % of the text are kept, in code point order.
    """

    def __init__(self, characters: str):
        self.characters = characters
        table = torch.zeros(0x110000, dtype=torch.int16)
        codes = _code_points(characters[1:])
        table[codes] = torch.arange(1, len(characters), dtype=torch.int16)
        self._token_of_code = table

    @classmethod
    def of_text(cls, text: str) -> "Vocabulary":
        counts = torch.bincount(_code_points(text))
        counts, codes = counts.sort(descending=True, stable=True)
        covered = counts.cumsum(0)
        kept = int((covered < VOCABULARY_COVERAGE * len(text)).sum()) + 1
        kept = min(kept, torch.iinfo(torch.int16).max)
        known = sorted(chr(code) for code in codes[:kept].tolist())
        return cls(UNKNOWN + "".join(c for c in known if c != UNKNOWN))

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> torch.Tensor:
        return self._token_of_code[_code_points(text)]

    def decode(self, tokens: torch.Tensor) -> str:
        return "".join(self.characters[token] for token in tokens.tolist())


@dataclass(frozen=True)
class Split:
    """One contiguous run of tokens from which batches are cut."""

    tokens: torch.Tensor

    def random_batch(self, size: int, length: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
        """A pure function of its arguments, so that resumed training sees the same batches."""
        generator = torch.Generator().manual_seed(seed)
        starts = torch.randint(len(self.tokens) - length, (size,), generator=generator)
        return self._windows(starts, length)

    def even_batches(self, count: int, size: int, length: int):
        """`count` batches spread evenly over the split, the same ones at every call."""
        starts = torch.linspace(0, len(self.tokens) - length - 1, count * size).long()
        for rows in starts.split(size):
            yield self._windows(rows, length)

    def _windows(self, starts: torch.Tensor, length: int) -> tuple[torch.Tensor, torch.Tensor]:
        windows = self.tokens[starts[:, None] + torch.arange(length + 1)].long()
        return windows[:, :-1].contiguous(), windows[:, 1:].contiguous()


@dataclass(frozen=True)
class Corpus:
    source: str
    vocabulary: Vocabulary
    train: Split
    validation: Split


def load_corpus(path: str | None, window: int) -> Corpus:
    """Reads `path`, or the standard library if it is None.

    Raises DemoError unless both splits hold a window of `window` characters and its target.
    """
    if path is None:
        source, train, validation = _read_standard_library()
    else:
        source, train, validation = _read_file(path)
    if len(validation) <= window:
        raise DemoError(
            f"{source}: too short: {len(train) + len(validation):,} characters, "
            f"at least {(window + 1) * HELD_OUT_EVERY:,} are needed"
        )
    vocabulary = Vocabulary.of_text(train)
    return Corpus(
        source, vocabulary, Split(vocabulary.encode(train)), Split(vocabulary.encode(validation))
    )


def _read_standard_library() -> tuple[str, str, str]:
    root = Path(sysconfig.get_path("stdlib"))
    files = sorted(
        (path.relative_to(root).as_posix(), path)
        for path in root.rglob("*.py")
        if not _SKIPPED_FOLDERS.intersection(path.relative_to(root).parts)
        and not path.name.startswith(_SKIPPED_PREFIX)
    )
    texts = []
    for _, path in files:
        try:
            with tokenize.open(path) as file:
                texts.append(file.read())
        except (OSError, SyntaxError, UnicodeDecodeError):
            continue  # unreadable, or a deliberately broken sample
    if not texts:
        raise DemoError(
            "this Python keeps no standard library sources on disk; name a text with --data FILE"
        )
    held_out = texts[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]
    del texts[HELD_OUT_EVERY - 1 :: HELD_OUT_EVERY]
    version = sysconfig.get_python_version()
    source = f"the standard library of Python {version} ({len(texts) + len(held_out)} files)"
    return source, "".join(texts), "".join(held_out)


def _read_file(path: str) -> tuple[str, str, str]:
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read(MAX_CHARACTERS + 1)
    except UnicodeDecodeError:
        raise DemoError(f"{path}: not a text file (it is not valid UTF-8)") from None
    except OSError as error:
        raise DemoError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:  # a path that no file can have, such as one with a null byte
        raise DemoError(f"{path!r}: {error}") from None
    if not text.strip():
        raise DemoError(f"{path}: the file is empty")
    if "\0" in text:
        raise DemoError(f"{path}: not a text file (it holds null characters)")
    source = path
    if len(text) > MAX_CHARACTERS:
        text = text[:MAX_CHARACTERS]
        source = f"{path} (its first {MAX_CHARACTERS:,} characters)"
    cut = len(text) - len(text) // HELD_OUT_EVERY
    return source, text[:cut], text[cut:]


def _code_points(text: str) -> torch.Tensor:
    encoded = bytearray(text.encode("utf-32-le", "surrogatepass"))
    if not encoded:
        return torch.empty(0, dtype=torch.int64)
    return torch.frombuffer(encoded, dtype=torch.int32).long()
