# SPDX-License-Identifier: Apache-2.0
"""Whatever is wrong with what the user gave, the demo says so in one line and exits with 2."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import train_gpt

SCRIPT = Path(train_gpt.__file__)


@pytest.fixture
def complaint(capsys, tmp_path):
    """Runs the demo, expects that it refuses, and returns its one line."""

    def run(*arguments):
        report = ["--report", str(tmp_path / "report")]
        status = train_gpt.main(["--device", "cpu", *report, *map(str, arguments)])
        printed = capsys.readouterr()
        assert status == 2
        assert printed.out == ""
        assert printed.err.count("\n") == 1
        return printed.err

    return run


def test_missing_file(complaint, tmp_path):
    assert "nothing.txt: No such file or directory" in complaint("--data", tmp_path / "nothing.txt")


def test_folder(complaint, tmp_path):
    assert f"{tmp_path}: Is a directory" in complaint("--data", tmp_path)


@pytest.mark.parametrize("content", [b"", b" \n\n", b"\xef\xbb\xbf"])
def test_empty(complaint, tmp_path, content):
    path = tmp_path / "empty.txt"
    path.write_bytes(content)
    assert "the file is empty" in complaint("--data", path)


def test_too_short(complaint, tmp_path):
    path = tmp_path / "short.txt"
    path.write_text("a" * 1289)
    assert "too short: 1,289 characters, at least 1,290 are needed" in complaint("--data", path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"\x89PNG\xff\xfe" * 1000, "not valid UTF-8"), (b"text\0" * 1000, "null characters")],
)
def test_not_text(complaint, tmp_path, content, reason):
    path = tmp_path / "data.bin"
    path.write_bytes(content)
    message = complaint("--data", path)
    assert "not a text file" in message
    assert reason in message


def test_path_with_null_byte(complaint):
    assert "null byte" in complaint("--data", "a\0b")


def test_unknown_device(complaint):
    message = complaint("--device", "toaster")
    assert "--device toaster: no such device here" in message
    assert "cpu" in message


def test_report_folder_is_a_file(complaint, tmp_path):
    path = tmp_path / "taken"
    path.touch()
    message = complaint("--report", path)
    assert f"{path}: cannot write the report there: " in message


def test_unwritable_report_folder(complaint):
    folder = Path("/proc/report")
    assert "/proc/report: cannot write the report there" in complaint("--report", folder)


@pytest.mark.parametrize("steps", ["0", "-3", "many", "1.5"])
def test_bad_step_count(steps, capsys):
    with pytest.raises(SystemExit, match="2"):
        train_gpt.main(["--steps", steps])
    assert f"'{steps}' is not a positive whole number" in capsys.readouterr().err


def test_as_a_command(tmp_path):
    process = subprocess.run(
        [sys.executable, SCRIPT, "--device", "cpu", "--data", tmp_path / "nothing.txt"],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert process.returncode == 2
    assert process.stderr.startswith("train_gpt: ")
    assert process.stderr.count("\n") == 1
