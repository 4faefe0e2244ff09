# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# bash completion of flightctl(1): commands, options, and from the daemon ids of snapshots and names of triggers.
#
# Installed as /usr/share/bash-completion/completions/flightctl. The daemon's replies are neither evaluated nor expanded:
# words are compared unchanged, and only words of [a-z0-9-] are offered. If no daemon answers, only fixed words are
# offered.

# Offers each of these words that begins with the typed text. `cur` is _flightctl's.
_flightctl_offer() {
  local word
  for word; do
    if [[ $word == "$cur"* ]]; then COMPREPLY+=("$word"); fi
  done
}

# The daemon's reply, line by line. `program` and `socket` are _flightctl's. With --host it returns nothing: ssh may ask
# for a password or take long.
_flightctl_ask() { [ -z "$host" ] || return 0; timeout 2 "$program" "${socket[@]}" --json "$@" </dev/null 2>/dev/null; }

# The newest hundred ids, and latest; without the typed ones.
_flightctl_ids() {
  local LC_ALL=C line
  local -a ids=(latest)
  while IFS= read -r line; do
    if [[ $line =~ ^\ *\"id\":\ \"([0-9]{1,20})\",?$ ]]; then ids+=("${BASH_REMATCH[1]}"); fi
  done < <(_flightctl_ask list -r -n 100)
  [ "${#ids[@]}" -gt 1 ] || return 0
  for line in "${ids[@]}"; do
    if [[ " ${typed[*]} " != *" $line "* ]]; then _flightctl_offer "$line"; fi
  done
}

# Names of triggers; only of the kind $1 if it is given.
_flightctl_triggers() {
  local LC_ALL=C line name=""
  while IFS= read -r line; do
    if [[ $line =~ ^\ *\"name\":\ \"([a-z0-9-]{1,32})\",?$ ]]; then
      name=${BASH_REMATCH[1]}
    elif [[ -n $name && $line =~ ^\ *\"kind\":\ \"([a-z]+)\",?$ ]]; then
      if [[ -z ${1:-} || $1 == "${BASH_REMATCH[1]}" ]]; then _flightctl_offer "$name"; fi
      name=""
    fi
  done < <(_flightctl_ask triggers)
}

# Names of systemd units in the newest hundred snapshots.
_flightctl_units() {
  local LC_ALL=C line word inside=""
  local -A seen=()
  while IFS= read -r line; do
    if [[ $line =~ ^\ *\"units\":\ \[$ ]]; then
      inside=1
    elif [[ -n $inside && $line =~ ^\ *\"([a-zA-Z0-9:_.@-]+)\",?$ ]]; then
      word=${BASH_REMATCH[1]}
      if [[ -z ${seen[$word]-} ]]; then seen[$word]=1 && _flightctl_offer "$word"; fi
    else
      inside=""
    fi
  done < <(_flightctl_ask list -r -n 100)
}

# Keys of the configuration.
_flightctl_keys() {
  local LC_ALL=C line
  while IFS= read -r line; do
    if [[ $line =~ ^\ *\"path\":\ \"([a-z0-9_.-]+)\",?$ ]]; then _flightctl_offer "${BASH_REMATCH[1]}"; fi
  done < <(_flightctl_ask config)
}

# Uses ssh's own completion if it is installed.
_flightctl_hosts() {
  if declare -F _known_hosts_real >/dev/null; then
    _known_hosts_real -a -- "$cur"
  else
    mapfile -t COMPREPLY < <(compgen -A hostname -- "$cur")
  fi
}

_flightctl_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}

# Offers values of the option $1; false: it takes no value.
_flightctl_value() {
  case "$1" in
    --host | -H) _flightctl_hosts ;;
    --socket | --output | -o | --perf) _flightctl_files ;;
    --capture) _flightctl_offer pause live ;;
    --layout) _flightctl_offer file directory ;;
    --format) _flightctl_offer folded pprof firefox ;;
    --labels) _flightctl_offer thread tid cpu ;;
    --against) _flightctl_ids ;;
    --trigger) _flightctl_triggers; _flightctl_offer manual signal stop broker-lost record ;;
    --unit | -u) _flightctl_units ;;
    --since | --until) _flightctl_offer now today yesterday ;;
    --reason | --last | --post | -n | --past | --for | --max-size | --switch-size | --channel | --stop | --event | --comm | --thread | --cpu) ;;
    *) return 1 ;;
  esac
}

_flightctl_options() {
  case "$1" in
    "") _flightctl_offer --version ;;
    snapshot) _flightctl_offer --reason --last --since --until --post --capture --output --force -o -f ;;
    record)
      _flightctl_offer --past --for --max-size --switch-size --layout --reason --channel --output --force --stop -o -f
      ;;
    list) _flightctl_offer --since --until --trigger --unit --reverse --all -u -n -1 -r -a ;;
    doctor | info | show | config) _flightctl_offer --all -a ;;
    get) _flightctl_offer --output --force --with-symbols --plain -o -f ;;
    report) _flightctl_offer --perf ;;
    stacks)
      _flightctl_offer --unit --comm --thread --cpu --event --since --until --before --diff --inverted --shares -u -n
      ;;
    sched) _flightctl_offer --since --until -n ;;
    diff) _flightctl_offer --unit --comm --thread --cpu --event --inverted --shares -u -n ;;
    export) _flightctl_offer --format --labels --event --output --force -o -f ;;
    html) _flightctl_offer --against --open --output --force -o -f ;;
    fire) _flightctl_offer --reason ;;
    vacuum) _flightctl_offer --dry-run ;;
  esac
  _flightctl_offer --json --host --socket --help -H -h
}

_flightctl_words() {
  case "$1" in
    "")
      _flightctl_offer status doctor snapshot record list info show get report stacks diff sched export html remove rm pin unpin triggers fire vacuum pause \
        resume reload config monitor bridge help
      ;;
    help) if [ "${#typed[@]}" = 0 ]; then _flightctl_words ""; fi ;;
    diff) if [ "${#typed[@]}" -lt 2 ]; then _flightctl_ids; fi ;;
    report | stacks | sched | export | html) if [ "${#typed[@]}" = 0 ]; then _flightctl_ids; fi ;;
    get | info | show | remove | rm | pin | unpin) _flightctl_ids ;;
    config) if [ "${#typed[@]}" = 0 ]; then _flightctl_keys; fi ;;
    fire) if [ "${#typed[@]}" = 0 ]; then _flightctl_triggers external; fi ;;
    triggers)
      case "${#typed[@]}" in
        0) _flightctl_offer list enable disable test ;;
        1) if [ "${typed[0]}" != list ]; then _flightctl_triggers; fi ;;
      esac
      ;;
  esac
}

_flightctl() {
  local program=$1 cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="" host="" word i
  local -a typed=() socket=()
  COMPREPLY=()
  # readline splits --last=10s into three words.
  if [ "$cur" = "=" ]; then
    cur=""
  elif [ "$before" = "=" ] && [ "$COMP_CWORD" -gt 2 ]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    case "$word" in
      --host | -H | --socket | --reason | --last | --since | --until | --post | --capture | --output | -o | --trigger | --unit | -u | -n | --perf | \
        --past | --for | --max-size | --switch-size | --layout | --channel | --stop | --format | --labels | --event | --comm | --thread | --cpu | --against)
        if [ "${COMP_WORDS[i + 1]}" = "=" ]; then i=$((i + 1)); fi
        i=$((i + 1))
        if [ "$word" = --host ] || [ "$word" = -H ]; then host=${COMP_WORDS[i]-}; fi
        if [ "$word" = --socket ] && [ "$i" -lt "$COMP_CWORD" ]; then socket=(--socket "${COMP_WORDS[i]}"); fi
        ;;
      -H?*) host=${word#-H} ;;
      -* | "=") ;;
      *) if [ -z "$command" ]; then command=$word; else typed+=("$word"); fi ;;
    esac
  done
  if [ "$command" = report ] && [ "${#typed[@]}" -gt 0 ]; then return; fi  # arguments of perf
  if _flightctl_value "$before"; then return; fi
  if [[ $cur == -* ]]; then _flightctl_options "$command"; else _flightctl_words "$command"; fi
}

complete -F _flightctl flightctl
