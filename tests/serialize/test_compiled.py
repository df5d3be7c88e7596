"""The compiled hot path says what its sources say, byte for byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILED = ROOT / ".cache" / "compiled"
EVERYTHING = Path(__file__).with_name("everything.py")
RECORDINGS = ROOT / "tests" / "data" / "browser_use"
SCRIPT = """
import hashlib, json, pathlib, sys
import everything, recording
folder = sys.argv[1]
names = sorted(path.name.removesuffix(".raw.json.gz") for path in pathlib.Path(folder).glob("*.raw.json.gz"))
texts = [everything.everything(recording.load(name, folder)[0]) for name in names]
hashes = [hashlib.sha256(text.encode()).hexdigest() for text in texts]
print(json.dumps([sys.modules["workers.merge.merge"].__file__, hashes]))
"""


def digests(path: Path | None) -> tuple[str, list[str]]:
    """Where the core comes from in another process, and the hash of everything about each recording."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(RECORDINGS)],
        cwd=EVERYTHING.parent,  # in the root the sources would come first
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    file, found = json.loads(done.stdout)
    return file, found


def test_the_compiled_core_and_its_sources_say_the_same() -> None:
    if subprocess.run([ROOT / "infra" / "compiled.sh", "check"], check=False).returncode:
        pytest.skip("the compiled core is not built of these sources; run `make compiled` to compare both")
    pure_file, pure = digests(None)
    compiled_file, compiled = digests(COMPILED)
    assert pure_file.endswith(".py")
    assert compiled_file.endswith(".so")
    assert len(pure) >= 20
    assert compiled == pure
