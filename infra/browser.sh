#!/bin/sh
# Prints the path of a Chromium that starts, and installs one where there is none.
#
#     infra/browser.sh VENV
#
# In this order: PAGESTATE_BROWSER, Playwright's own, chromium-headless-shell and chromium on PATH; then Playwright's
# download, then the system's package manager. A browser that is there but does not start (Playwright's own needs
# system libraries) is named and passed over.
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
# shellcheck source=infra/packages.sh
. "$here/packages.sh"
playwright=${1:?the path of the virtual environment is missing}/bin/playwright

# --version loads the libraries that a browser is linked with, and nothing else.
starts() {
    timeout 30 "$1" --version >/dev/null 2>&1
}

offer() {
    if starts "$1"; then
        printf '%s\n' "$1"
        exit 0
    fi
    say "$1 is there but does not start; looking further"
}

# Playwright knows where its browser would be; the program's name in that folder depends on Playwright's version.
offer_playwrights_own() {
    "$playwright" install --dry-run --only-shell chromium 2>/dev/null |
        sed -n 's/^ *Install location: *//p' >"$places" || return 0
    while IFS= read -r place; do
        for name in chrome-headless-shell headless_shell; do
            for program in "$place"/*/"$name"; do
                [ ! -x "$program" ] || offer "$program"
            done
        done
    done <"$places"
}

offer_systems() {
    for name in chromium-headless-shell chromium; do
        program=$(command -v "$name") || continue
        offer "$program"
    done
}

if [ -n "${PAGESTATE_BROWSER:-}" ]; then
    [ -x "$PAGESTATE_BROWSER" ] || die "PAGESTATE_BROWSER is $PAGESTATE_BROWSER, which is no program; correct it or unset it."
    starts "$PAGESTATE_BROWSER" || die "PAGESTATE_BROWSER is $PAGESTATE_BROWSER, which does not start; correct it or unset it."
    printf '%s\n' "$PAGESTATE_BROWSER"
    exit 0
fi

places=$(mktemp)
trap 'rm -f "$places"' EXIT
offer_playwrights_own
offer_systems
say "no browser yet; asking Playwright for one"
if timeout 900 "$playwright" install --only-shell chromium >/dev/null 2>&1; then
    offer_playwrights_own
else
    say "Playwright cannot download one here"
fi
say "installing chromium-headless-shell with the system's package manager"
if system_install chromium-headless-shell; then
    offer_systems
fi
die "No Chromium starts on this machine; install the package chromium-headless-shell or chromium, or set PAGESTATE_BROWSER to one."
