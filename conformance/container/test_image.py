"""docker/Dockerfile and docker-compose.yml: what they say, and that the programs of the compose file do their work.

No container engine and no linter of Dockerfiles is needed for that. Tests with a number in their names are lines of the
drop-in checklist (docs/drop-in.md), with its text.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

import image as dockerfile
from container import ADDRESS
from program import Program, eventually

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
WORK_QUEUE = ROOT / "docker" / "work-queue"
INSTRUCTIONS = {
    "FROM", "SHELL", "RUN", "ENV", "WORKDIR", "COPY", "VOLUME", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL", "USER",
    "ENTRYPOINT", "CMD",
}  # fmt: skip


@pytest.fixture(scope="module")
def steps():
    return dockerfile.last_stage()


@pytest.fixture(scope="module")
def settings(steps):
    return dockerfile.Settings(steps)


def test_08_the_ports_of_the_official_image_are_exposed(settings):
    """Ports 5672, 5671, 15672, 15671, 15692 declared `EXPOSE`; 4369, 25672 declared too."""
    assert set(settings.ports) == {4369, 5671, 5672, 15671, 15672, 15691, 15692, 25672}


def test_08_its_places_signal_and_check_are_the_official_images(settings):
    """Data directory, entry point, command, signal and the health check that is built in."""
    assert settings.volumes == ["/var/lib/rabbitmq"]
    assert settings.entry_point == ["docker-entrypoint.sh"]
    assert settings.command == ["rabbitmq-server"]
    assert settings.stop_signal == "SIGTERM"
    assert settings.health_test == ["rabbitmq-diagnostics", "-q", "ping"]
    assert settings.health_options.keys() == {"interval", "timeout", "start-period", "start-interval", "retries"}
    assert settings.environment["HOME"] == settings.environment["RABBITMQ_DATA_DIR"] == "/var/lib/rabbitmq"
    assert {settings.environment[name] for name in ("LANG", "LC_ALL", "LANGUAGE")} == {"C.UTF-8"}


@pytest.mark.parametrize("path", ["docker/Dockerfile", "docker/work-queue/Dockerfile"])
def test_dockerfiles_keep_to_what_linters_ask_for(path):
    directory = ROOT if path == "docker/Dockerfile" else WORK_QUEUE
    stages = dockerfile.stages((ROOT / path).read_text(encoding="utf-8"))
    for stage in stages:
        words = [word for word, _ in stage]
        assert set(words) <= INSTRUCTIONS, words
        assert words[0] == "FROM"
        base = stage[0][1].split()[0]
        assert re.fullmatch(r"[a-z]+:[\w.-]+", base) and not base.endswith(":latest"), f"{base}: no tag"
        for word, rest in stage:
            if word in {"ENTRYPOINT", "CMD"}:
                # As a list: in a shell's hands signals would not reach the program.
                assert isinstance(json.loads(rest), list)
            if word == "COPY" and "--from=" not in rest:
                *sources, _ = rest.split()
                for source in sources:
                    assert (directory / source).exists(), f"COPY {source}: there is none"
            if word == "RUN" and "apt-get install" in rest:
                assert "--no-install-recommends" in rest and "rm -rf /var/lib/apt/lists/*" in rest
            if word == "RUN" and "|" in rest.replace("||", ""):
                assert ("SHELL", '["/bin/bash", "-o", "pipefail", "-c"]') in stage
            if word == "RUN":
                assert "sudo" not in rest
            if word == "WORKDIR":
                assert rest.startswith("/")
    assert [word for word, _ in stages[-1]].count("CMD") == 1
    assert [word for word, _ in stages[-1]].count("USER") == 1


def test_the_image_is_made_by_the_steps_that_this_suite_takes(steps):
    words = [(word, rest.split()[-1]) for word, rest in steps if word in {"COPY", "RUN"}]
    assert words == [
        ("COPY", "/tmp/image.sh"),
        ("RUN", "packages"),
        ("COPY", "/"),
        ("COPY", "/usr/local/bin/leveret"),
        ("RUN", "/tmp/image.sh"),
    ]


def test_60_tags_mirror_rabbitmqs():
    """Tags mirror RabbitMQ's (`4`, `4-management`, ...): people change only the repository part."""
    told = subprocess.run([ROOT / "docker/image.sh", "tags", "4.3.6"], capture_output=True, text=True, check=True)
    expected = ["4.3.6", "4.3", "4", "latest", "4.3.6-management", "4.3-management", "4-management", "management"]
    assert told.stdout.split() == expected


def test_59_the_edits_that_frameworks_need_are_written_down():
    """Image recognised: the one-liners for Testcontainers, Spring Boot compose and Aspire are in the docs."""
    page = (ROOT / "docs/drop-in.md").read_text(encoding="utf-8")
    for line in (
        'asCompatibleSubstituteFor("rabbitmq")',
        "org.springframework.boot.service-connection: rabbitmq",
        "WithManagementPlugin",
        "WithImage",
    ):
        assert line in page


def test_the_compose_file_says_what_an_engine_needs():
    services = COMPOSE["services"]
    assert services.keys() == {"rabbitmq", "producer", "worker"}
    broker = services["rabbitmq"]
    assert (ROOT / broker["build"]["context"] / broker["build"]["dockerfile"]).is_file()
    assert broker["ports"] == ["5672:5672", "15672:15672"]
    assert broker["healthcheck"]["test"] == ["CMD", "rabbitmq-diagnostics", "-q", "ping"]
    assert broker["volumes"] == ["data:/var/lib/rabbitmq"] and "data" in COMPOSE["volumes"]
    for name in ("producer", "worker"):
        service = services[name]
        assert service["depends_on"] == {"rabbitmq": {"condition": "service_healthy"}}
        assert (ROOT / service["build"] / "Dockerfile").is_file()
        assert (ROOT / service["build"] / service["command"][1]).is_file()
    assert services["worker"]["deploy"]["replicas"] == 3


def test_the_compose_files_producer_and_three_workers_do_the_work(image, volume):
    broker = COMPOSE["services"]["rabbitmq"]
    container = image.start(
        environment=broker["environment"],
        hostname=broker["hostname"],
        mounts=[(volume, broker["volumes"][0].split(":")[1], "")],
    )
    container.ok(*broker["healthcheck"]["test"][1:])
    tasks = 12
    programs = {}

    def start(name, service, **more):
        _, script = COMPOSE["services"][service]["command"]
        url = COMPOSE["services"][service]["environment"]["AMQP_URL"].replace("@rabbitmq:", f"@{ADDRESS}:")
        environment = os.environ | {"AMQP_URL": url, "PYTHONDONTWRITEBYTECODE": "1"} | more
        # Each of them is in the broker's network, as they are in one with it in compose.
        enter = ["nsenter", "--target", str(container.pid), "--net"]
        programs[name] = Program(name, [*enter, sys.executable, WORK_QUEUE / script], environment)

    try:
        for number in range(COMPOSE["services"]["worker"]["deploy"]["replicas"]):
            start(f"worker {number}", "worker", SECS_PER_DOT="0.01")
        start("producer", "producer", TASKS=str(tasks), PAUSE_SECS="0")

        def done():
            workers = [program for name, program in programs.items() if name.startswith("worker")]
            return [match[1] for worker in workers for match in worker.printed(r"done (.*)")]

        shown = list(programs.values())
        eventually(lambda: len(done()) == tasks, f"{tasks} tasks done", "\n".join(map(str, shown)))
        assert sorted(done()) == sorted(f"task {number}" + "." * (number % 4) for number in range(1, tasks + 1))
        eventually(lambda: not programs["producer"].is_running, "the producer ends", programs["producer"])
        assert container.ok("rabbitmqctl", "-q", "list_queues", "name", "messages") == "name\tmessages\ntask_queue\t0\n"
    finally:
        for program in programs.values():
            program.kill()
