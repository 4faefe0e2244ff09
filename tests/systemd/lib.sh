# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# lib.sh: functions for the *-in-guest scripts. They run as root in a temporary system that tests/packages/run has booted,
# with the package installed, and print `ok NAME` or `not ok NAME: why` for each case, and the counts at the end.
# shellcheck disable=SC2034 # used by those who source it
store=/var/lib/flightd/snapshots
passed=0
failed=0

# `jq -e` 1.6 (Debian 12) exits 0 for an empty input, which is all that a command that failed has printed.
cat >/usr/local/bin/jq <<'END'
#!/bin/sh
case " $* " in *" -n "*) exec /usr/bin/jq "$@" ;; esac
input=$(cat && echo .)
[ "$input" != . ] || { echo "jq: no input" >&2; exit 5; }
printf %s "${input%.}" | exec /usr/bin/jq "$@"
END
chmod 755 /usr/local/bin/jq

# check NAME COMMAND...: a case. A function ends at its first failing command. Its variables are local.
check() {
  local name=$1 out rc
  shift
  out=$(set -e; "$@" 2>&1)
  rc=$?
  if [ "$rc" = 0 ]; then
    passed=$((passed + 1))
    echo "ok $name"
  else
    failed=$((failed + 1))
    echo "not ok $name: status $rc: $(tail -n 4 <<<"$out" | tr '\n' ';' | cut -c 1-600)"
  fi
}

# Takes the lines of a program that prints its own cases.
take() {
  local line
  while IFS= read -r line; do
    echo "$line"
    case $line in
      "ok "*) passed=$((passed + 1)) ;;
      "not ok "*) failed=$((failed + 1)) ;;
    esac
  done
}

finish() {
  echo "# $(basename -- "$0"): $passed passed, $failed failed"
  [ "$failed" = 0 ]
  exit
}

# refused COMMAND...: for a command that must fail.
refused() { if "$@"; then echo "was not refused: $*"; return 1; fi; }

# same WANT GOT WHAT
same() { [ "$1" = "$2" ] || { echo "$3: '$2' and not '$1'"; return 1; }; }

# within SECONDS COMMAND...: repeats it until it succeeds.
within() {
  local tries=$(($1 * 10))
  shift
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { echo "never was: $*"; "$@"; return 1; }
    sleep 0.1
  done
}

# as USER COMMAND...
as() {
  local user=$1
  shift
  setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups -- "$@"
}

ctl() { flightctl --json "$@"; }
show() { systemctl show --value -p "$2" "$1"; }
pid_of() { show "$1" MainPID; }
# answers: flightd runs and replies to a call.
answers() { ctl status | jq -e '.recording | IN("on", "unproven")'; }
# The shortest history of all rings, in whole seconds.
held() { ctl status | jq '[.rings[].history_seconds] | min | floor'; }
# holds SECONDS: the rings hold at least that much.
holds() { [ "$(held)" -ge "$1" ]; }
# another_pid UNIT PID: it runs with another pid.
another_pid() { systemctl -q is-active "$1" && [ "$(pid_of "$1")" != "$2" ] && [ "$(pid_of "$1")" != 0 ]; }
# replace_broker: ends the broker's process; systemd starts it again. (The unit refuses a restart.)
replace_broker() {
  local before
  before=$(pid_of flightd-broker)
  systemctl kill flightd-broker
  within 10 another_pid flightd-broker "$before"
}
# burn NAME SECONDS: a process with this name uses a CPU, and exits.
burn() {
  cp -- "$(readlink -f /usr/bin/sha256sum)" "/tmp/$1"
  timeout "$2" "/tmp/$1" /dev/zero || true
  rm -- "/tmp/$1"
}
# named FILE NAME: the stock perf finds samples of this process in FILE.
named() { perf script -i "$1" -F comm 2>/dev/null | grep -q -- "$2"; }
