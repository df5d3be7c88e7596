"""The bootstrap does its work once, heals what was interrupted, and finds a browser in the order it promises.

Real shell scripts in a copy of the tree; the interpreter, the package manager and the browsers are stand-ins, since a
real installation takes a minute.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYSTEM_TOOLS = (
    *("cat", "chmod", "cp", "dirname", "env", "flock", "id", "mkdir", "mktemp", "printf", "rm", "sed", "sh"),
    *("sha256sum", "tail", "timeout"),
)

# Answers to what the bootstrap asks of an interpreter, and writes down what it was asked to do.
PYTHON = """#!/bin/sh
case "$*" in
    *implementation*) echo "cpython.3.${FAKE_MINOR:-11}.4" ;;
    *"version_info <"*) [ "${FAKE_MINOR:-11}" -ge 11 ] ;;
    *"import ensurepip"*) [ -z "${FAKE_NO_VENV:-}" ] ;;
    *d-venv*) echo python3.11-venv ;;
    *platform*) echo "Python 3.${FAKE_MINOR:-11}.4" ;;
    "-m venv "*) echo venv >>"$FAKE_LOG"; mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
    "-m pip "*) echo "pip $*" >>"$FAKE_LOG"; [ -z "${FAKE_PIP_FAILS:-}" ] || { echo "no such hash"; exit 1; } ;;
    *) echo "unexpected: $*" >&2; exit 9 ;;
esac
"""
BROWSER = "#!/bin/sh\necho Chromium 1.2.3\n"
BROKEN_BROWSER = "#!/bin/sh\nexit 127\n"


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)  # it may be a link to the system's own
    path.write_text(text)
    path.chmod(0o755)
    return path


@dataclass(frozen=True)
class Machine:
    """A copy of the tree, and a PATH that holds the system's small tools and what a test puts beside them."""

    checkout: Path
    bin: Path
    log: Path

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.checkout,
            env={"PATH": str(self.bin), "HOME": str(self.bin.parent), "FAKE_LOG": str(self.log), **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def bootstrap(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("infra/bootstrap.sh", *words, **environment)

    def browser(self, **environment: str) -> subprocess.CompletedProcess[str]:
        return self.run("infra/browser.sh", ".venv", **environment)

    def done(self) -> list[str]:
        """What the stand-in for Python was asked to do since the last look."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return ["packages" if "--require-hashes" in line else "project" if "-e ." in line else line for line in lines]

    def playwright(self, installs: bool = False, starts: bool = True) -> Path:
        """Puts a stand-in for Playwright into the venv; where its browser would be is the answer."""
        place = self.bin.parent / "ms playwright" / "chromium_headless_shell-1"
        inside = place / "chrome-headless-shell-linux64" / "chrome-headless-shell"
        install = f"mkdir -p '{inside.parent}' && cp '{self.bin}/made' '{inside}'" if installs else "exit 1"
        program(self.bin / "made", BROWSER if starts else BROKEN_BROWSER)
        program(
            self.checkout / ".venv/bin/playwright",
            f'#!/bin/sh\ncase "$*" in *--dry-run*) echo "  Install location:    {place}" ;; *) {install} ;; esac\n',
        )
        return inside


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    checkout = tmp_path / "a check out"
    checkout.mkdir()
    shutil.copytree(ROOT / "infra", checkout / "infra")
    (checkout / "requirements.lock").write_text("a==1 --hash=sha256:00\n")
    (checkout / "pyproject.toml").write_text("[project]\n")
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in SYSTEM_TOOLS:
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    return Machine(checkout, tools, tmp_path / "log")


@pytest.fixture
def furnished(machine: Machine) -> Machine:
    """A machine with a Python and a browser on PATH."""
    program(machine.bin / "python3", PYTHON)
    program(machine.bin / "chromium", BROWSER)
    return machine


def test_a_first_run_makes_everything_and_a_second_does_nothing(furnished: Machine) -> None:
    first = furnished.bootstrap()
    assert first.returncode == 0, first.stderr
    assert furnished.done() == ["venv", "packages", "project"]
    assert first.stdout == ""
    assert "pagestate: making .venv with Python 3.11.4" in first.stderr
    assert (furnished.checkout / ".venv/browser").read_text() == f"{furnished.bin}/chromium\n"

    second = furnished.bootstrap()
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert furnished.done() == []


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml"])
def test_a_changed_lock_or_project_is_installed_into_the_same_venv(furnished: Machine, name: str) -> None:
    furnished.bootstrap()
    furnished.done()
    with (furnished.checkout / name).open("a") as file:
        file.write("# changed\n")
    assert furnished.bootstrap().returncode == 0
    assert furnished.done() == ["packages", "project"]


def test_an_installation_that_broke_off_is_started_over(furnished: Machine) -> None:
    broken = furnished.bootstrap(FAKE_PIP_FAILS="1")
    assert broken.returncode == 2
    assert "no such hash" in broken.stderr
    assert "could not be installed" in broken.stderr
    furnished.done()
    assert furnished.bootstrap().returncode == 0
    assert furnished.done() == ["venv", "packages", "project"]


def test_an_update_that_broke_off_is_started_over(furnished: Machine) -> None:
    furnished.bootstrap()
    (furnished.checkout / "requirements.lock").write_text("a==2 --hash=sha256:00\n")
    assert furnished.bootstrap(FAKE_PIP_FAILS="1").returncode == 2
    furnished.done()
    assert furnished.bootstrap().returncode == 0
    assert furnished.done() == ["venv", "packages", "project"]


def test_a_venv_without_its_interpreter_is_made_anew(furnished: Machine) -> None:
    furnished.bootstrap()
    furnished.done()
    (furnished.checkout / ".venv/bin/python").unlink()
    assert furnished.bootstrap().returncode == 0
    assert furnished.done() == ["venv", "packages", "project"]


def test_a_checkout_that_was_moved_gets_a_venv_of_its_own(furnished: Machine) -> None:
    furnished.bootstrap()
    furnished.done()
    moved = furnished.checkout.rename(furnished.checkout.parent / "moved")
    assert Machine(moved, furnished.bin, furnished.log).bootstrap().returncode == 0
    assert furnished.done() == ["venv", "packages", "project"]


def test_another_python_that_is_asked_for_is_honoured(furnished: Machine) -> None:
    furnished.bootstrap()
    furnished.done()
    program(furnished.bin / "python3.12", PYTHON.replace(":-11", ":-12"))
    assert furnished.bootstrap(PYTHON="python3.12").returncode == 0
    assert furnished.done() == ["venv", "packages", "project"]
    assert furnished.bootstrap(PYTHON="python3.12").stderr == ""
    assert furnished.bootstrap().stderr == "", "without a wish the venv that is there serves"


def test_a_newer_python_is_taken_where_python3_is_too_old(furnished: Machine) -> None:
    program(furnished.bin / "python3", PYTHON.replace(":-11", ":-9"))
    program(furnished.bin / "python3.12", PYTHON.replace(":-11", ":-12"))
    run = furnished.bootstrap()
    assert run.returncode == 0
    assert "Python 3.12.4" in run.stderr


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        ({}, "No Python 3.11 or newer is on PATH"),
        ({"PYTHON": "python3"}, "PYTHON is python3, which is not Python 3.11 or newer"),
        ({"PYTHON": "/nowhere/python3"}, "PYTHON is /nowhere/python3, which is not there"),
    ],
)
def test_an_old_or_missing_python_is_one_sentence(machine: Machine, environment: dict[str, str], sentence: str) -> None:
    program(machine.bin / "python3", PYTHON.replace(":-11", ":-10"))
    run = machine.bootstrap(**environment)
    assert run.returncode == 2
    assert len(run.stderr.splitlines()) == 1
    assert sentence in run.stderr
    assert not (machine.checkout / ".venv").exists()


def test_a_python_without_venv_is_one_sentence_where_nothing_can_be_installed(furnished: Machine) -> None:
    run = furnished.bootstrap(FAKE_NO_VENV="1")
    assert run.returncode == 2
    assert "install the package python3.11-venv" in run.stderr
    assert furnished.done() == []


def test_the_word_python_leaves_the_browser_out(machine: Machine) -> None:
    program(machine.bin / "python3", PYTHON)
    assert machine.bootstrap("python").returncode == 0
    assert machine.bootstrap("python").stderr == ""
    assert not (machine.checkout / ".venv/browser").exists()
    assert machine.bootstrap("pyhton").returncode == 2


def test_a_browser_that_was_removed_is_looked_for_again(furnished: Machine) -> None:
    furnished.bootstrap()
    furnished.done()
    (furnished.bin / "chromium").rename(furnished.bin / "chromium-headless-shell")
    assert furnished.bootstrap().returncode == 0
    assert furnished.done() == []
    assert (furnished.checkout / ".venv/browser").read_text() == f"{furnished.bin}/chromium-headless-shell\n"


def test_a_configured_browser_is_not_remembered(furnished: Machine) -> None:
    other = program(furnished.bin.parent / "my browser", BROWSER)
    assert furnished.bootstrap(PAGESTATE_BROWSER=str(other)).returncode == 0
    assert furnished.bootstrap(PAGESTATE_BROWSER=str(other)).stderr == ""
    assert not (furnished.checkout / ".venv/browser").exists()
    assert furnished.bootstrap().returncode == 0
    assert (furnished.checkout / ".venv/browser").read_text() == f"{furnished.bin}/chromium\n"


def test_the_order_in_which_a_browser_is_found(machine: Machine) -> None:
    configured = program(machine.bin.parent / "configured", BROWSER)
    own = program(machine.playwright(), BROWSER)
    shell = program(machine.bin / "chromium-headless-shell", BROWSER)
    full = program(machine.bin / "chromium", BROWSER)

    assert machine.browser(PAGESTATE_BROWSER=str(configured)).stdout == f"{configured}\n"
    for browser in (own, shell, full):
        run = machine.browser()
        assert (run.returncode, run.stdout, run.stderr) == (0, f"{browser}\n", "")
        browser.unlink()


@pytest.mark.parametrize("own_name", ["chrome-headless-shell", "headless_shell"])
def test_playwrights_own_is_found_under_either_of_its_names(machine: Machine, own_name: str) -> None:
    own = program(machine.playwright().with_name(own_name), BROWSER)
    assert machine.browser().stdout == f"{own}\n"


def test_a_browser_that_does_not_start_is_named_and_passed_over(machine: Machine) -> None:
    own = program(machine.playwright(), BROKEN_BROWSER)
    full = program(machine.bin / "chromium", BROWSER)
    run = machine.browser()
    assert run.stdout == f"{full}\n"
    assert f"{own} is there but does not start" in run.stderr


@pytest.mark.parametrize(("text", "fault"), [(None, "no program"), (BROKEN_BROWSER, "does not start")])
def test_a_configured_browser_is_never_replaced(machine: Machine, text: str | None, fault: str) -> None:
    configured = machine.bin.parent / "configured"
    if text:
        program(configured, text)
    program(machine.bin / "chromium", BROWSER)
    run = machine.browser(PAGESTATE_BROWSER=str(configured))
    assert (run.returncode, run.stdout) == (2, "")
    assert len(run.stderr.splitlines()) == 1
    assert fault in run.stderr


def test_playwright_is_asked_before_the_package_manager(machine: Machine) -> None:
    own = machine.playwright(installs=True)
    run = machine.browser()
    assert (run.returncode, run.stdout) == (0, f"{own}\n")
    assert "package manager" not in run.stderr


@pytest.mark.parametrize("installs", [False, True])
def test_the_package_manager_comes_last(machine: Machine, installs: bool) -> None:
    """Given a Playwright that cannot download, or one whose browser lacks libraries, then the system's is installed."""
    machine.playwright(installs=installs, starts=False)
    program(machine.bin / "id", "#!/bin/sh\necho 0\n")
    program(
        machine.bin / "apt-get",
        f'#!/bin/sh\necho "$*" >>"{machine.log}"\n'
        f'case "$1" in install) printf "#!/bin/sh\\necho ok\\n" >"{machine.bin}/chromium-headless-shell"\n'
        f'chmod +x "{machine.bin}/chromium-headless-shell" ;; esac\n',
    )
    run = machine.browser()
    assert (run.returncode, run.stdout) == (0, f"{machine.bin}/chromium-headless-shell\n")
    assert machine.done() == ["update -qq", "install -y -qq --no-install-recommends chromium-headless-shell"]


def test_whoever_is_not_root_needs_sudo_and_is_not_asked_for_a_password_without_a_terminal(machine: Machine) -> None:
    machine.playwright()
    program(machine.bin / "id", "#!/bin/sh\necho 1000\n")
    program(machine.bin / "apt-get", f'#!/bin/sh\necho "$*" >>"{machine.log}"\n')
    assert machine.browser().returncode == 2
    assert machine.done() == []
    program(machine.bin / "sudo", f'#!/bin/sh\necho "sudo $*" >>"{machine.log}"\nexit 1\n')
    assert machine.browser().returncode == 2
    assert machine.done() == ["sudo -n apt-get update -qq"]


def test_no_browser_anywhere_says_what_to_install(machine: Machine) -> None:
    machine.playwright()
    run = machine.browser()
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.splitlines()[-1] == (
        "pagestate: No Chromium starts on this machine; install the package chromium-headless-shell or chromium,"
        " or set PAGESTATE_BROWSER to one."
    )
