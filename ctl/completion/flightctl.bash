# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# bash completion of flightctl(1): commands, options, and from the daemon ids of snapshots and names of triggers.
#
# Goes to /usr/share/bash-completion/completions/flightctl. What the daemon says is neither evaluated nor expanded: words
# are compared as they are, and only those of [a-z0-9-] are offered. Where no daemon answers nothing is.

# Offers each of these words that begins with what was typed. `cur` is _flightctl's.
_flightctl_offer() {
  local word
  for word; do
    if [[ $word == "$cur"* ]]; then COMPREPLY+=("$word"); fi
  done
}

# What the daemon answers, a line at a time. `program` and `socket` are _flightctl's. Another machine is not asked: ssh
# may want a password, or take its time.
_flightctl_ask() { [ -z "$host" ] || return 0; timeout 2 "$program" "${socket[@]}" --json "$@" </dev/null 2>/dev/null; }

# The newest hundred ids, and latest; without those that were typed already.
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

# Names of triggers, of the kind $1 if there is one.
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

# As ssh's own completion, where there is one.
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

# What may stand behind the option $1; false: it takes nothing.
_flightctl_value() {
  case "$1" in
    --host | -H) _flightctl_hosts ;;
    --socket | --output | -o | --perf) _flightctl_files ;;
    --capture) _flightctl_offer pause live ;;
    --trigger) _flightctl_triggers; _flightctl_offer manual signal stop broker-lost ;;
    --since | --until) _flightctl_offer now today yesterday ;;
    --reason | --last | --post | -n) ;;
    *) return 1 ;;
  esac
}

_flightctl_options() {
  case "$1" in
    "") _flightctl_offer --version ;;
    snapshot) _flightctl_offer --reason --last --since --until --post --capture --output --force -o -f ;;
    list) _flightctl_offer --since --until --trigger --reverse -n -1 -r ;;
    get) _flightctl_offer --output --force --with-symbols -o -f ;;
    report) _flightctl_offer --perf ;;
    fire) _flightctl_offer --reason ;;
    vacuum) _flightctl_offer --dry-run ;;
  esac
  _flightctl_offer --json --host --socket --help -H -h
}

_flightctl_words() {
  case "$1" in
    "")
      _flightctl_offer status doctor snapshot list info get report remove rm pin unpin triggers fire vacuum pause \
        resume reload config monitor bridge help
      ;;
    help) if [ "${#typed[@]}" = 0 ]; then _flightctl_words ""; fi ;;
    info | get | report) if [ "${#typed[@]}" = 0 ]; then _flightctl_ids; fi ;;
    remove | rm | pin | unpin) _flightctl_ids ;;
    fire) if [ "${#typed[@]}" = 0 ]; then _flightctl_triggers external; fi ;;
    triggers)
      case "${#typed[@]}" in
        0) _flightctl_offer enable disable test ;;
        1) _flightctl_triggers ;;
      esac
      ;;
  esac
}

_flightctl() {
  local program=$1 cur=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command="" host="" word i
  local -a typed=() socket=()
  COMPREPLY=()
  # readline takes --last=10s for three words.
  if [ "$cur" = "=" ]; then
    cur=""
  elif [ "$before" = "=" ] && [ "$COMP_CWORD" -gt 2 ]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    case "$word" in
      --host | -H | --socket | --reason | --last | --since | --until | --post | --capture | --output | -o | --trigger | -n | --perf)
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
  if [ "$command" = report ] && [ "${#typed[@]}" -gt 0 ]; then return; fi  # perf's own
  if _flightctl_value "$before"; then return; fi
  if [[ $cur == -* ]]; then _flightctl_options "$command"; else _flightctl_words "$command"; fi
}

complete -F _flightctl flightctl
