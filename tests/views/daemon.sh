# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# A flightd with a configuration of a script's own, and loads, which end with the script. To be sourced, after `set -euo pipefail`.
#
#   use_build DIR           where flightd and flightctl are
#   start_daemon <CONFIG    in new directories; it has answered
#   ctl ARGUMENTS...        flightctl, with this flightd
#   load COMMAND...         in the background, in a process group of its own
#   end_loads, stop_daemon
#
# At the end of the script first_clean_up is called before the loads end, and more_clean_up afterwards, if there are such functions.
# /tmp can be a tmpfs: what an incident writes must reach a disk.
dir=$(mktemp -d /var/tmp/flight-views.XXXXXX)
chmod 755 "$dir"
build="" daemon="" loads=() runs=0

use_build() { build=$(realpath -- "$1"); }
ctl() { "$build/ctl/flightctl" --socket "$dir/$runs/run/io.flightd.Recorder" "$@"; }

start_daemon() {
  local deadline
  runs=$((runs + 1))
  mkdir -- "$dir/$runs"
  cat >"$dir/$runs/flightd.json"
  "$build/daemon/flightd" --config "$dir/$runs/flightd.json" --state-dir "$dir/$runs/state" --runtime-dir "$dir/$runs/run" \
    >"$dir/$runs/flightd.log" 2>&1 &
  daemon=$!
  deadline=$((SECONDS + 20))
  until [ -S "$dir/$runs/run/io.flightd.Recorder" ] && ctl status >/dev/null 2>&1; do
    kill -0 "$daemon" 2>/dev/null || { echo "flightd exited at its start"; return 1; }
    [ "$SECONDS" -lt "$deadline" ] || { echo "flightd does not answer"; return 1; }
    sleep 0.1
  done
}
stop_daemon() {
  [ -n "$daemon" ] || return 0
  kill -TERM "$daemon" 2>/dev/null || true
  for _ in $(seq 50); do kill -0 "$daemon" 2>/dev/null || break; sleep 0.1; done
  kill -KILL "$daemon" 2>/dev/null || true
  wait "$daemon" 2>/dev/null || true
  daemon=""
}

load() {
  setsid -- "$@" &
  loads+=("$!")
}
# A load is the leader of its group, so that what it has started ends with it.
end_loads() {
  local one
  for one in "${loads[@]}"; do
    kill -KILL -- "-$one" 2>/dev/null || kill -KILL "$one" 2>/dev/null || true
    wait "$one" 2>/dev/null || true
  done
  loads=()
}

# shellcheck disable=SC2317 # called by trap
clean_up() {
  local status=$?
  trap - EXIT
  if [ "$(type -t first_clean_up)" = function ]; then first_clean_up; fi
  end_loads
  stop_daemon
  if [ "$(type -t more_clean_up)" = function ]; then more_clean_up; fi
  [ "$status" = 0 ] || tail -n 20 -- "$dir/$runs/flightd.log" 2>/dev/null || true
  rm -rf -- "$dir"
  exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM
