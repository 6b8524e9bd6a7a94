#!/usr/bin/env bash
# Installs the real servers that the tests use, where that is possible.
set -uo pipefail

declare -A package_of=(
  [rabbitmq-server]=rabbitmq-server [redis-server]=redis-server [chromium]=chromium
  # what checks deploy/
  [promtool]=prometheus [nginx]=nginx [caddy]=caddy [pgbouncer]=pgbouncer [systemd-analyze]=systemd
  [mmdebstrap]=mmdebstrap [buildah]=buildah
  # what `bench peers` measures beside Opilio
  [beanstalkd]=beanstalkd
)
export PATH="$PATH:/usr/sbin:/usr/lib/rabbitmq/bin"

missing() { for program in "${!package_of[@]}"; do command -v "$program" >/dev/null || echo "${package_of[$program]}"; done; }

packages=$(missing)
if [ -n "$packages" ] && command -v apt-get >/dev/null; then
  as_root=""
  [ "$(id -u)" -eq 0 ] || as_root="sudo -n"
  if [ -z "$as_root" ] || command -v sudo >/dev/null; then
    # One by one, so that one that cannot be had does not cost the others.
    for package in $packages; do
      $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$package" >/dev/null 2>&1 ||
        { $as_root apt-get update >/dev/null 2>&1 &&
          $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$package" >/dev/null 2>&1; }
    done
  fi
fi

left=$(missing | tr '\n' ' ')
if [ -n "$left" ]; then
  echo "Not installed, tests that need them are skipped: $left" >&2
  [ "${CI:-}" = "true" ] && exit 1
fi
exit 0
