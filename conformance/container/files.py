"""Files that tests mount, and where RabbitMQ's image looks for them."""

ETC = "/etc/rabbitmq"
MAIN = f"{ETC}/rabbitmq.conf"
MORE = f"{ETC}/conf.d"
PLUGINS = f"{ETC}/enabled_plugins"
DEFINITIONS = f"{ETC}/definitions.json"
DATA = "/var/lib/rabbitmq"
COOKIE = f"{DATA}/.erlang.cookie"


def write(path, text):
    path.write_text(text if text.endswith("\n") else f"{text}\n")
    return path
