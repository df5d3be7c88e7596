#!/bin/sh
# Makes sure that the servers which tests start are installed: redis-server and rabbitmq-server from the system's
# packages, and `ip`, by which a test makes hosts with networks of their own. SeaweedFS (S3) comes with the development
# packages. Nothing is started here.
set -eu

here=$(cd "$(dirname "$0")" && pwd -P)
# shellcheck source=infra/packages.sh
. "$here/packages.sh"

for server in redis-server rabbitmq-server; do
	command -v "$server" >/dev/null && continue
	say "installing $server with the system's package manager"
	system_install "$server" || die "$server is not there; install the package $server, and run this again."
done
command -v ip >/dev/null || {
	say "installing iproute2 with the system's package manager"
	system_install iproute2 || say "ip is not there; the test of hosts that are cut off will skip"
}
