#!/bin/sh
# Makes sure that the servers which tests start are installed: redis-server from the system's packages. SeaweedFS (S3)
# comes with the development packages. Nothing is started here.
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
# shellcheck source=infra/packages.sh
. "$here/packages.sh"

command -v redis-server >/dev/null && exit 0
say "installing redis-server with the system's package manager"
system_install redis-server || die "redis-server is not there; install the package redis-server, and run this again."
