#!/bin/sh
# What the image has beside Debian's slim base: packages, the user, directories, links. The Dockerfile runs it in its last
# stage, conformance/container in a root file system of its own, so that both get the same.
#
#   image.sh packages    install them; needs the network
#   image.sh files       make the rest; expects the binary at /usr/local/bin/leveret
#   image.sh tags X.Y.Z  print the tags of an image that answers as this version, as those of RabbitMQ's image; each has the
#                        management API, so that the tags with and without that word are one image
set -eu

# tzdata and certificates as in RabbitMQ's image; gosu steps down from root. nc and wget are what health checks call in
# RabbitMQ's Alpine image, which is left for this one too.
PACKAGES="bash ca-certificates gosu netcat-openbsd tzdata wget"

# Programs of RabbitMQ's that the binary answers as.
PROGRAMS="rabbitmq-server rabbitmqctl rabbitmq-diagnostics rabbitmq-plugins rabbitmq-queues rabbitmq-streams
  rabbitmq-upgrade rabbitmqadmin"

# The directories that a volume may be mounted over, or that anybody may be running the broker in.
WRITABLE="/var/lib/rabbitmq /etc/rabbitmq /etc/rabbitmq/conf.d /var/log/rabbitmq /tmp/rabbitmq-ssl"

case ${1:-} in
packages)
  apt-get update
  # shellcheck disable=SC2086 # words of a list
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $PACKAGES
  rm -rf /var/lib/apt/lists/*
  ;;
files)
  # The numbers of RabbitMQ's image, so that its volumes belong to the same user here.
  groupadd --system --gid 999 rabbitmq
  useradd --system --uid 999 --gid rabbitmq --home-dir /var/lib/rabbitmq --shell /bin/sh rabbitmq
  for directory in $WRITABLE; do
    mkdir -p "$directory"
    chown rabbitmq:rabbitmq "$directory"
    chmod 1777 "$directory"
  done
  # Where the broker's administrators reach it: its user makes the socket there, and nobody else may.
  install -d -m 755 -o rabbitmq -g rabbitmq /run/leveret
  # The entry point makes it: a file that is there before would keep scripts from writing their own.
  ln -sf /var/lib/rabbitmq/.erlang.cookie /root/.erlang.cookie
  echo "[rabbitmq_management,rabbitmq_prometheus]." >/etc/rabbitmq/enabled_plugins
  chown rabbitmq:rabbitmq /etc/rabbitmq/enabled_plugins
  # Where Dockerfiles copy plugins to; nothing reads them.
  mkdir -p /opt/rabbitmq/plugins /opt/rabbitmq/sbin
  ln -sfn /opt/rabbitmq/plugins /plugins
  # Links only where RabbitMQ has its programs. What Dockerfiles write to /usr/local/bin/rabbitmqadmin would go through a
  # link into the broker itself, so that there is a script.
  for program in $PROGRAMS; do
    ln -sf /usr/local/bin/leveret "/opt/rabbitmq/sbin/$program"
  done
  # The Alpine image's word for gosu.
  ln -sf "$(command -v gosu)" /usr/local/bin/su-exec
  ;;
tags)
  version=${2:?a version like 4.3.6}
  minor=${version%.*}
  for tag in "$version" "$minor" "${version%%.*}"; do echo "$tag"; done
  echo latest
  for tag in "$version" "$minor" "${version%%.*}"; do echo "$tag-management"; done
  echo management
  ;;
*)
  sed -n '2,9p' "$0" | sed 's/^# \{0,1\}//' >&2
  exit 2
  ;;
esac
