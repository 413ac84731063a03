# SPDX-License-Identifier: Apache-2.0
"""The demo end to end: a few steps on a small text, what it prints, saves and reports."""

import contextlib
import io
import re
from html.parser import HTMLParser

import pytest
import torch
import train_gpt
from char_gpt.corpus import load_corpus
from char_gpt.training import SEQUENCE, Schedule, Trainer

STEPS = 12
VOID = {"meta", "br", "img", "link", "input", "hr"}


class Page(HTMLParser):
    """Text, elements and references of a page; asserts that elements nest."""

    def __init__(self, html):
        super().__init__()
        self.open = []
        self.count = {}
        self.references = []
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.count[tag] = self.count.get(tag, 0) + 1
        if tag not in VOID:
            self.open.append(tag)
        self._note(attributes)

    def handle_startendtag(self, tag, attributes):
        self._note(attributes)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] not in ("style", "metadata"):
            self.text += data

    def _note(self, attributes):
        names = ("src", "href", "xlink:href")
        self.references += [value for name, value in attributes if name in names]


@pytest.fixture(scope="module")
def text_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "<i>&.txt"
    path.write_text("".join(f"{i} squared is {i * i} & more <b>\n" for i in range(400)))
    return path


@pytest.fixture(scope="module")
def outcome(request, text_file, tmp_path_factory):
    """One run on the device that the test asks for: its printed text and its report folder."""
    folder = tmp_path_factory.mktemp("run") / "deep" / "report"
    arguments = ["--data", str(text_file), "--steps", str(STEPS), "--report", str(folder)]
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
        patch.setenv("COLUMNS", "120")
        patch.setattr(train_gpt, "SAMPLE_LENGTH", 40)
        status = train_gpt.main([*arguments, *request.param])
    assert status == 0
    return printed.getvalue(), folder


ON_CPU = ["--device", "cpu"]
ON_ACCELERATOR = []
COMPILED = ["--compile"]
everywhere = pytest.mark.parametrize(
    "outcome",
    [ON_CPU, ON_ACCELERATOR, COMPILED],
    ids=["cpu", "accelerator", "compiled"],
    indirect=True,
)


@everywhere
def test_prints_losses_and_the_path_of_the_report(outcome):
    printed, folder = outcome
    first = re.findall(r"│ +(\d+) │ +(\d\.\d+) │ +(\d\.\d+) │ +(\d\.\de[+-]\d\d) │", printed)
    steps = list(range(1, 21)) + list(range(STEPS + 1, STEPS + 21))
    assert [int(step) for step, *_ in first] == steps
    assert all(float(difference) <= 1e-4 for *_, difference in first)
    assert "equal to 0.0001 relative" in printed
    assert "validation loss" in printed
    assert "tokens/s" in printed
    assert f"Report: {folder / 'index.html'}\n" in printed


@everywhere
def test_report_is_one_page_without_references(outcome):
    _, folder = outcome
    page = Page((folder / "index.html").read_text(encoding="utf-8"))
    assert page.count["svg"] == 4
    assert all(reference.startswith("#") for reference in page.references)
    assert "<i>&.txt" in page.text
    for heading in ("Loss", "Throughput", "Memory", "Step times", "Operators of one training step"):
        assert heading in page.text
    assert "agree with the CPU's" in page.text
    assert re.search(r"aten::\w*attention\w*", page.text)


@everywhere
def test_checkpoint_loads_on_the_cpu(outcome, text_file):
    _, folder = outcome
    checkpoint = torch.load(folder / "checkpoint.pt", map_location="cpu", weights_only=True)
    assert checkpoint["step"] == STEPS
    corpus = load_corpus(str(text_file), SEQUENCE)
    trainer = Trainer(corpus, torch.device("cpu"), Schedule(STEPS), seed=2)
    untrained = trainer.validate()
    trainer.load(folder / "checkpoint.pt")
    assert trainer.validate() < 0.9 * untrained


@pytest.mark.parametrize("outcome", [COMPILED], ids=["compiled"], indirect=True)
def test_compiled_run_says_so(outcome):
    printed, folder = outcome
    name = f"{torch.accelerator.current_accelerator()}, compiled"
    assert f"loss on {name}" in printed
    assert name in Page((folder / "index.html").read_text(encoding="utf-8")).text


def test_differing_losses_fail_loudly(text_file, tmp_path, monkeypatch, capsys):
    exact = train_gpt.run_steps
    runs = []

    def wrong_in_the_second_run(trainer, count):
        runs.append(exact(trainer, count))
        if len(runs) == 2:
            runs[-1].losses[5] *= 1.001
        return runs[-1]

    monkeypatch.setattr(train_gpt, "run_steps", wrong_in_the_second_run)
    monkeypatch.setattr(train_gpt, "SAMPLE_LENGTH", 40)
    monkeypatch.setattr(train_gpt, "COMPARED_STEPS", 6)
    options = ["--device", "cpu", "--steps", "1", "--data", str(text_file)]
    assert train_gpt.main([*options, "--report", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert "NOT EQUAL to 0.0001 relative" in printed.out
    assert "FAILED: the losses on the device differ from the CPU's" in printed.err
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page.count('<tr class="bad">') == 1
    assert "differ from the CPU's" in page


def test_interrupt_is_one_line(text_file, tmp_path, monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(train_gpt, "run_steps", interrupt)
    options = ["--device", "cpu", "--data", str(text_file), "--report", str(tmp_path)]
    assert train_gpt.main(options) == 130
    assert capsys.readouterr().err == "train_gpt: interrupted\n"
