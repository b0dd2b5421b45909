#!/usr/bin/env bash
# Runs what it is told. Started as root with a program of the broker's, it first gives the data to the user rabbitmq and
# becomes that user; any other program runs as who started it. With another user it changes nobody.
set -euo pipefail

data=${RABBITMQ_DATA_DIR:-/var/lib/rabbitmq}

# The file that RabbitMQ's tools share as their secret. Nothing here reads it; scripts chmod it and copy it about.
if [ -w "$data" ] && [ ! -e "$data/.erlang.cookie" ]; then
  cookie=${RABBITMQ_ERLANG_COOKIE:-$(head -c 1000 /dev/urandom | tr -dc A-Z | head -c 20)}
  (umask 077 && printf '%s' "$cookie" >"$data/.erlang.cookie")
  chmod 400 "$data/.erlang.cookie"
fi

if [[ ${1:-} == rabbitmq* || ${1:-} == leveret ]] && [ "$(id -u)" = 0 ]; then
  if [ "$1" = rabbitmq-server ] || [ "$1" = leveret ]; then
    # A file that was mounted read-only keeps its owner: nothing here writes to it.
    find "$data" \! -user rabbitmq -exec chown rabbitmq '{}' + ||
      echo "docker-entrypoint.sh: not everything in $data could be given to the user rabbitmq" >&2
  fi
  exec gosu rabbitmq "$BASH_SOURCE" "$@"
fi

exec "$@"
