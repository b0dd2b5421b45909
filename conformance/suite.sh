# What the suites of client programs share; their `run` sources it. Needs SUITE and HERE to be set.
# shellcheck shell=bash

# Without it a step that fails inside of $(...) would be passed over.
shopt -s inherit_errexit

CACHE=${LEVERET_CACHE:-$HOME/.cache/leveret}

# need COMMAND...: ends the suite, by name and as not run, on a machine that lacks one of them.
need() {
  local command
  for command in "$@"; do
    command -v "$command" >/dev/null || not_run "no $command on this machine; scripts/setup test installs it"
  done
}

not_run() {
  echo "$SUITE: not run, $1" >&2
  [ -z "${SUMMARY_FILE:-}" ] || echo "not run, $1" >"$SUMMARY_FILE"
  exit 0
}

# prepared KEY COMMAND: the directory that COMMAND filled, with its path as argument, once per machine and KEY.
#
# The directory appears under its name only when the command has succeeded. Directories of other keys stay: another
# clone on this machine may use them.
prepared() {
  local directory lock
  directory=$CACHE/$SUITE-$(sha256sum <<<"$1" | cut -c1-16)
  if [ ! -e "$directory" ]; then
    mkdir -p "$CACHE"
    # Two runs at once must not fill the same directory.
    exec {lock}>"$CACHE/$SUITE.lock"
    flock "$lock"
    if [ ! -e "$directory" ]; then
      echo "$SUITE: making $directory" >&2
      rm -rf "$directory.new"
      mkdir "$directory.new"
      "$2" "$directory.new" >&2
      mv "$directory.new" "$directory"
    fi
    exec {lock}>&-
  fi
  echo "$directory"
}
