# shellcheck shell=sh
# Words that the shell scripts here share: say, die, system_install. Read with `.`, not run.

say() {
    printf 'pagestate: %s\n' "$*" >&2
}

die() {
    say "$*"
    exit 2
}

# Installs Debian packages; false, with a word why, where that is not possible.
system_install() {
    command -v apt-get >/dev/null || return 1
    if [ "$(id -u)" = 0 ]; then
        become=""
    elif ! command -v sudo >/dev/null; then
        return 1
    elif [ -t 0 ]; then
        become="sudo"
    else
        become="sudo -n" # nobody is there to type a password
    fi
    printed=$(mktemp)
    # shellcheck disable=SC2086 # $become is none, one or two words
    if $become apt-get update -qq >"$printed" 2>&1 &&
        $become env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >>"$printed" 2>&1; then
        rm -f "$printed"
        return 0
    fi
    tail -n 5 "$printed" >&2
    rm -f "$printed"
    return 1
}
