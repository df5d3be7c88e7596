#!/bin/sh
# Makes .venv as requirements.lock says, installs the project into it and makes sure that a browser starts.
#
#     infra/bootstrap.sh [python]      with `python` the browser is left out
#
# PYTHON             the interpreter to build on; without it python3, or a newer one on PATH where python3 is too old
# PAGESTATE_BROWSER  a browser to use instead of looking for one
#
# The second run does nothing but compare two stamps. Each is written after all that it vouches for, so an interrupted
# run leaves none and the next run starts over.
set -eu

oldest=11 # Python 3.11, as pyproject.toml says
here=$(cd "$(dirname "$0")" && pwd -P)
root=$(dirname "$here")
cd "$root"
# shellcheck source=infra/packages.sh
. "$here/packages.sh"

venv=.venv
log=.cache/bootstrap.log
venv_stamp=$venv/stamp-venv
packages_stamp=$venv/stamp-packages
browser_record=$venv/browser

version_of() {
    "$1" -ISc 'import sys; print(sys.implementation.name, *sys.version_info[:3], sep=".")' 2>/dev/null
}

# The path is part of it, since a venv that was moved, or copied with its checkout, still points to the old place.
venv_key() {
    printf '%s %s\n' "$1" "$root"
}

packages_key() {
    cat requirements.lock pyproject.toml infra/bootstrap.sh | sha256sum
}

holds() {
    [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]
}

venv_is_ready() {
    [ -x "$venv/bin/python" ] || return 1
    built=$(version_of "$venv/bin/python") || return 1
    if [ -n "${PYTHON:-}" ]; then
        wanted=$(version_of "$PYTHON") || return 1
        [ "$built" = "$wanted" ] || return 1
    fi
    holds "$venv_stamp" "$(venv_key "$built")"
}

packages_are_ready() {
    holds "$packages_stamp" "$(packages_key)"
}

browser_is_ready() {
    if [ -n "${PAGESTATE_BROWSER:-}" ]; then
        [ -x "$PAGESTATE_BROWSER" ]
    else
        [ -f "$browser_record" ] && [ -x "$(cat "$browser_record")" ]
    fi
}

new_enough() {
    "$1" -ISc "import sys; sys.exit(sys.version_info < (3, $oldest))" 2>/dev/null
}

choose_python() {
    if [ -n "${PYTHON:-}" ]; then
        command -v "$PYTHON" >/dev/null || die "PYTHON is $PYTHON, which is not there; give the path of a Python 3.$oldest or newer."
        new_enough "$PYTHON" || die "PYTHON is $PYTHON, which is not Python 3.$oldest or newer; give another one."
        echo "$PYTHON"
        return
    fi
    for name in python3 python3.13 python3.12 python3.11; do
        if command -v "$name" >/dev/null && new_enough "$name"; then
            echo "$name"
            return
        fi
    done
    die "No Python 3.$oldest or newer is on PATH; install python3 (3.$oldest or newer) or name one: PYTHON=/path/to/python3 make ..."
}

# Debian ships venv without its ensurepip, in a package of its own.
make_sure_of_venv() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null && return
    package=$("$1" -ISc 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')
    say "installing $package"
    system_install "$package" ||
        die "$1 cannot make virtual environments; install the package $package (or python3-venv) and run this again."
    "$1" -c 'import ensurepip, venv' 2>/dev/null ||
        die "$1 cannot make virtual environments even with $package installed; name another: PYTHON=/path/to/python3 make ..."
}

# Runs a command quietly; its output is shown only if it fails.
logged() {
    if ! "$@" >"$log" 2>&1; then
        tail -n 20 "$log" >&2
        return 1
    fi
}

make_venv() {
    python=$(choose_python)
    make_sure_of_venv "$python"
    say "making $venv with $("$python" -c 'import platform; print("Python", platform.python_version())')"
    rm -rf "$venv"
    logged "$python" -m venv "$venv" || die "$python could not make $root/$venv; the lines above say why."
    venv_key "$(version_of "$venv/bin/python")" >"$venv_stamp"
}

install_packages() {
    rm -f "$packages_stamp"
    say "installing the locked packages (about a minute)"
    # The lock file names every package, so pip has nothing to resolve: left to itself, it looks for the newest release of
    # a package that is asked for with an extra, finds it unpinned, and refuses the whole file.
    logged "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input --require-hashes --no-deps -r requirements.lock ||
        die "The packages in requirements.lock could not be installed; the lines above say why."
    say "installing pagestate"
    logged "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-input --no-deps --no-build-isolation -e . ||
        die "pagestate could not be installed into $venv; the lines above say why."
    packages_key >"$packages_stamp"
}

find_a_browser() {
    rm -f "$browser_record"
    found=$("$here/browser.sh" "$venv")
    # A configured browser is for this run only, so it is not remembered.
    [ -n "${PAGESTATE_BROWSER:-}" ] || printf '%s\n' "$found" >"$browser_record"
}

case "${1:-}" in
    "") with_browser=yes ;;
    python) with_browser=no ;;
    *) die "infra/bootstrap.sh knows only the word python, not $1." ;;
esac

everything_is_ready() {
    venv_is_ready && packages_are_ready && { [ "$with_browser" = no ] || browser_is_ready; }
}

everything_is_ready && exit 0

mkdir -p .cache
if command -v flock >/dev/null; then
    exec 9>.cache/bootstrap.lock
    flock -n 9 || {
        say "waiting for another bootstrap of this checkout"
        flock 9
    }
fi
# A venv without the second stamp was interrupted while packages came in: half a package looks whole to pip.
if ! venv_is_ready || [ ! -f "$packages_stamp" ]; then
    make_venv
fi
packages_are_ready || install_packages
[ "$with_browser" = no ] || browser_is_ready || find_a_browser
