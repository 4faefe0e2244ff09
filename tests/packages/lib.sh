# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# lib.sh: functions to install the packages in a booted system. Sourced.

# apt_get ARGUMENTS...: shows its output only if it fails.
apt_get() {
  apt-get -q -y -o Dpkg::Use-Pty=0 "$@" >/tmp/apt.out 2>&1 || { cat /tmp/apt.out; return 1; }
}
# install_packages FOLDER: installs flightd and flightctl from it, as an administrator does; also an older version over a
# newer one.
install_packages() { apt_get install --no-install-recommends --allow-downgrades "$PWD/$1"/flightd_*.deb "$PWD/$1"/flightctl_*.deb; }
