"""examples/deploy: flags, settings, probes and names in the files are those of the server."""

import re
from pathlib import Path

import pytest
import typer
import yaml

from bon.commands.main import app
from bon.service.online.selector import Selector
from bon.service.server.middleware import BODY_BYTES
from bon.service.settings import Limits, read_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
OBJECTS = {
    document["kind"]: document
    for document in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
}
POD = OBJECTS["Deployment"]["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
COMMANDS = {"compose": COMPOSE["services"]["bon"]["command"], "kubernetes": CONTAINER["args"]}
SETTINGS = {
    "compose": COMPOSE["configs"]["settings"]["content"],
    "kubernetes": OBJECTS["ConfigMap"]["data"]["service.yaml"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_is_one_of_bon(name):
    command, *arguments = COMMANDS[name]
    serve = typer.main.get_command(app).commands[command]
    values = serve.make_context("serve", list(arguments), resilient_parsing=False).params
    assert (values["host"], values["port"]) == ("0.0.0.0", 8321)
    assert str(values["config"]) == "/etc/bon/service.yaml"


@pytest.mark.parametrize("name", SETTINGS)
def test_the_settings_are_read_and_their_cards_exist(tmp_path, name):
    (tmp_path / "service.yaml").write_text(SETTINGS[name])
    settings = read_settings(tmp_path / "service.yaml")
    assert settings.allow.hosts == ("bon.example.com",)
    assert str(settings.data) == "/var/lib/bon"
    assert Selector(settings.online, settings.base).specs()


def test_probes_hit_routes_that_answer_without_a_token_or_name(client):
    probes = {
        CONTAINER[kind]["httpGet"]["path"]
        for kind in ("startupProbe", "livenessProbe", "readinessProbe")
    }
    probes |= set(
        re.findall(r"8321(/\w+)", " ".join(COMPOSE["services"]["bon"]["healthcheck"]["test"]))
    )
    assert probes == {"/healthz", "/readyz"}
    for path in probes:
        answer = client.get(path, headers={"host": "10.1.2.3:8321"})
        assert answer.status_code in (200, 503)  # the supervisor does not run here
        assert answer.json()


def test_names_in_the_manifest_agree():
    spec, labels = POD["spec"], POD["metadata"]["labels"]
    names = {volume["name"] for volume in spec["volumes"]}
    for container in (CONTAINER, *spec["initContainers"]):
        assert {mount["name"] for mount in container["volumeMounts"]} <= names
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
    claims = [
        v["persistentVolumeClaim"]["claimName"]
        for v in spec["volumes"]
        if "persistentVolumeClaim" in v
    ]
    assert claims == [OBJECTS["PersistentVolumeClaim"]["metadata"]["name"]]
    maps = [v["configMap"]["name"] for v in spec["volumes"] if "configMap" in v]
    assert maps == [OBJECTS["ConfigMap"]["metadata"]["name"]]
    deployment, service, policy = (
        OBJECTS[kind]["spec"] for kind in ("Deployment", "Service", "NetworkPolicy")
    )
    assert deployment["selector"]["matchLabels"] == service["selector"] == labels
    assert policy["podSelector"]["matchLabels"] == labels
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (1, "Recreate")
    (port,) = CONTAINER["ports"]
    assert port["containerPort"] == 8321
    assert service["ports"][0]["targetPort"] == port["name"]
    assert policy["ingress"][0]["ports"] == [{"port": port["name"]}]
    assert policy["ingress"][0]["from"]


def test_only_the_proxy_of_the_compose_file_is_published():
    services = COMPOSE["services"]
    assert "ports" not in services["bon"]
    assert set(services["bon"]["volumes"][0].split(":")[:1]) <= set(COMPOSE["volumes"])
    assert (DEPLOY / services["bon"]["build"]["context"]).resolve() == ROOT
    assert (ROOT / services["bon"]["build"]["dockerfile"]).is_file()
    assert (DEPLOY / "Caddyfile").is_file()


def test_the_proxies_pass_what_the_server_reads():
    nginx, caddy = (DEPLOY / "nginx.conf").read_text(), (DEPLOY / "Caddyfile").read_text()
    for header, value in (
        ("Host", "$host"),
        ("X-Forwarded-Proto", "$scheme"),
        ("X-Forwarded-For", "$remote_addr"),
    ):
        assert f"proxy_set_header {header} {value};" in nginx
    assert "header_up Host" not in caddy  # Caddy's own is the client's
    for text in (nginx, caddy):
        (seconds,) = re.findall(r"(?:proxy_read|response_header)_timeout\s+(\d+)s", text)
        assert int(seconds) > Limits().request_seconds
        (megabytes,) = re.findall(r"(?:client_max_body_size|max_size)\s+(\d+)", text)
        assert int(megabytes) * 1024**2 >= BODY_BYTES
