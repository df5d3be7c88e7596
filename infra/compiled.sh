#!/bin/sh
# Compiles the modules on the hot path with mypyc into .cache/compiled, a copy of the sources that PYTHONPATH puts before
# them. Nothing needs it: the same sources run as they are, and a test holds both to the same bytes. Needs a C compiler.
# With `check` it compiles nothing, and tells by its exit code whether what is there is of these sources.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$root"
# shellcheck source=infra/packages.sh
. infra/packages.sh

built=.cache/compiled
# of everything that is copied: what is not compiled would be used from there too
stamp=$(find schemas workers infra/compiled.sh -name '*.py' -o -name compiled.sh | LC_ALL=C sort | xargs cksum | cksum)
[ "$(cat "$built/stamp" 2>/dev/null || true)" = "$stamp" ] && exit 0
[ "${1:-}" = check ] && exit 1
command -v cc >/dev/null || die "there is no C compiler; install gcc, and run this again."

say "compiling the hot path (some minutes)"
rm -rf "$built"
mkdir -p "$built"
cp -R schemas workers "$built/"
printf "[mypy]\nignore_missing_imports = True\n" >"$built/mypy.ini"
cd "$built"
find . -name __pycache__ -type d -prune -exec rm -rf {} +
modules="merge/tree merge/document merge/merge merge/rows merge/layout"
for name in interactivity attributes printing xpath indices simplify listing painting bbox rectangles compound view statistics; do
	modules="$modules serialize/$name"
done
files=""
for module in $modules; do files="$files workers/$module.py"; done
# shellcheck disable=SC2086 # the names hold no spaces
"$root/.venv/bin/mypyc" $files >build.log 2>&1 || {
	tail -n 20 build.log >&2
	die "the hot path could not be compiled; it runs as it is."
}
rm -rf build
printf '%s' "$stamp" >stamp
