# SPDX-License-Identifier: Apache-2.0
import torch
from char_gpt.corpus import UNKNOWN, Split, Vocabulary, load_corpus

WINDOW = 128


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_standard_library_is_the_same_every_time():
    first, second = load_corpus(None, WINDOW), load_corpus(None, WINDOW)
    assert first.vocabulary.characters == second.vocabulary.characters
    assert torch.equal(first.train.tokens, second.train.tokens)
    assert torch.equal(first.validation.tokens, second.validation.tokens)
    assert len(first.train.tokens) > 5 * len(first.validation.tokens) > 1_000_000


def test_standard_library_has_sources_and_docstrings():
    corpus = load_corpus(None, WINDOW)
    text = corpus.vocabulary.decode(corpus.train.tokens)
    assert "def " in text
    assert '"""' in text


def test_file_is_split_at_its_last_tenth(tmp_path):
    text = "".join(chr(ord("a") + i % 7) for i in range(2000))
    corpus = load_corpus(write(tmp_path / "text.txt", text), WINDOW)
    decode = corpus.vocabulary.decode
    assert decode(corpus.train.tokens) == text[:1800]
    assert decode(corpus.validation.tokens) == text[1800:]


def test_shortest_file_gives_full_windows(tmp_path):
    corpus = load_corpus(write(tmp_path / "text.txt", "ab" * 645), WINDOW)
    inputs, targets = corpus.validation.random_batch(8, WINDOW, seed=1)
    assert inputs.shape == targets.shape == (8, WINDOW)


def test_any_script_is_text(tmp_path):
    text = "日本語のテキスト、Ωμέγα — 🙂\n" * 100
    corpus = load_corpus(write(tmp_path / "text.txt", text), WINDOW)
    assert corpus.vocabulary.decode(corpus.vocabulary.encode(text)) == text


def test_rare_and_new_characters_become_unknown():
    vocabulary = Vocabulary.of_text("ab" * 50_000 + "\N{SNOWMAN}")
    assert vocabulary.characters == UNKNOWN + "ab"
    assert vocabulary.decode(vocabulary.encode("a\N{SNOWMAN}bz")) == f"a{UNKNOWN}b{UNKNOWN}"


def test_targets_follow_inputs():
    split = Split(torch.arange(1000, dtype=torch.int16))
    batches = [split.random_batch(8, 16, seed=3), *split.even_batches(4, 8, 16)]
    for inputs, targets in batches:
        assert torch.equal(targets, inputs + 1)


def test_random_batches_follow_from_the_seed():
    split = Split(torch.arange(100_000, dtype=torch.int32))
    first, again, other = (split.random_batch(8, 16, seed=s)[0] for s in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_even_batches_reach_both_ends():
    split = Split(torch.arange(1000, dtype=torch.int16))
    batches = list(split.even_batches(4, 8, 16))
    assert batches[0][0][0, 0] == 0
    assert batches[-1][1][-1, -1] == 999
