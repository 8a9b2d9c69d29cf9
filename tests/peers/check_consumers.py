# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Loads generated files with the programs that they are for: ``check_consumers.py DIRECTORY``.

It runs in an environment with LiteLLM and compose-spec. Where promtool, systemd or docker-compose is missing, what it
would check is left out (tools/left_out.sh).
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["LITELLM_LOG"] = "ERROR"
os.environ["KNASTER_SECRET"] = "must not be seen"

import yaml

STARTED = time.perf_counter()
LEFT_OUT = Path(__file__).resolve().parents[2] / "tools" / "left_out.sh"


def say(text: str) -> None:
    print(f"{time.perf_counter() - STARTED:6.1f} s  {text}", flush=True)


def fail(text: str) -> t.NoReturn:
    sys.exit(f"FAILED: {text}")


def leave_out(text: str) -> None:
    """Say that a check is left out, or end here where nothing may be left out."""
    if subprocess.run([LEFT_OUT, f"consumers: {text}"], check=False).returncode:
        fail(text)


def run(*command: str, **more: t.Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **more)
    if done.returncode:
        fail(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


# --- LiteLLM


async def load_litellm(path: Path) -> t.Any:
    from litellm.proxy.proxy_server import ProxyConfig

    with contextlib.redirect_stdout(io.StringIO()):
        router, model_list, _settings = await ProxyConfig().load_config(router=None, config_file_path=str(path))
    written = yaml.safe_load(path.read_text())
    ids = {entry["model_info"]["id"] for entry in written["model_list"]}
    loaded = {entry["model_info"]["id"]: entry for entry in router.get_model_list() or []}
    if ids != set(loaded):
        fail(f"{path}: LiteLLM knows other slots: {sorted(ids ^ set(loaded))[:5]}")
    for entry in written["model_list"]:
        info = router.get_deployment(model_id=entry["model_info"]["id"]).model_info.model_dump()
        for key, value in entry["model_info"].items():
            if info.get(key) != value:
                fail(f"{path}: LiteLLM has {key} {info.get(key)!r}, not {value!r}")
    for alias, name in (written.get("router_settings") or {}).get("model_group_alias", {}).items():
        if router.model_group_alias.get(alias) != name:
            fail(f"{path}: LiteLLM does not know the alias {alias!r}")
    say(f"LiteLLM loads {path.parent.parent.name}: {len(model_list)} models")
    return router


class Engine(BaseHTTPRequestHandler):
    """Answers like each engine does, and keeps what it was asked."""

    asked: t.ClassVar[list[tuple[str, dict[str, t.Any]]]] = []
    broken: t.ClassVar[set[str]] = set()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, body))
        if body.get("model") in self.broken:
            self.answer(500, {"error": {"message": "out of memory"}})
        elif self.path == "/v1/chat/completions":
            message = {"role": "assistant", "content": "yes"}
            choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            self.answer(
                200,
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 1,
                    "model": body["model"],
                    "choices": choices,
                    "usage": usage,
                },
            )
        elif self.path in ("/v1/embeddings", "/embeddings"):
            data = [{"object": "embedding", "index": 0, "embedding": [0.5]}]
            self.answer(
                200,
                {
                    "object": "list",
                    "data": data,
                    "model": body["model"],
                    "usage": {"prompt_tokens": 1, "total_tokens": 1},
                },
            )
        elif self.path == "/rerank" and "texts" in body:  # text-embeddings-inference
            self.answer(200, [{"index": 0, "score": 0.9}])
        elif self.path == "/rerank" and "documents" in body:  # infinity
            self.answer(
                200,
                {
                    "id": "1",
                    "results": [{"index": 0, "relevance_score": 0.9}],
                    "usage": {"prompt_tokens": 1, "total_tokens": 1},
                },
            )
        else:
            self.answer(404, {"error": {"message": f"there is no {self.path}"}})

    def answer(self, status: int, document: t.Any) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_unused: t.Any) -> None:
        pass


async def ask_through(router: t.Any, path: Path) -> None:
    """Every slot is asked through LiteLLM, by its name and by its alias; a broken one by its fallback."""
    written = yaml.safe_load(path.read_text())
    aliases = {name: alias for alias, name in written["router_settings"]["model_group_alias"].items()}
    kinds = set()
    for entry in written["model_list"]:
        name, mode = entry["model_name"], entry["model_info"]["mode"]
        kinds.add((entry["litellm_params"]["model"].partition("/")[0], mode))
        for asked in (name, aliases[name]):
            Engine.asked.clear()
            if mode == "chat":
                await router.acompletion(model=asked, messages=[{"role": "user", "content": "?"}])
            elif mode == "embedding":
                await router.aembedding(model=asked, input=["x"])
            else:
                await router.arerank(model=asked, query="q", documents=["a"], top_n=1)
            where, body = Engine.asked[-1]
            if where != "/rerank" and body["model"] != name:
                fail(f"{name}: the engine was asked for {body['model']!r}")
    fallbacks = {name: others for entry in written["router_settings"]["fallbacks"] for name, others in entry.items()}
    name = next(entry["model_name"] for entry in written["model_list"] if entry["model_info"]["mode"] == "chat")
    Engine.broken.add(name)
    Engine.asked.clear()
    await router.acompletion(model=name, messages=[{"role": "user", "content": "?"}], num_retries=0)
    if Engine.asked[-1][1]["model"] not in fallbacks[name]:
        fail(f"{name}: no fallback of it was asked, but {Engine.asked[-1]}")
    say(f"LiteLLM asks engines as they want it: {', '.join('/'.join(kind) for kind in sorted(kinds))}, and a fallback")


async def check_litellm(directory: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 18000), Engine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    await load_litellm(directory / "rack/gateway/litellm.yaml")
    router = await load_litellm(directory / "hostile/gateway/litellm.yaml")
    if "must not be seen" in json.dumps(router.get_model_list(), default=str):
        fail("a text of the catalog became a variable of LiteLLM")
    path = directory / "asked/gateway/litellm.yaml"
    await ask_through(await load_litellm(path), path)
    server.shutdown()


# --- Prometheus


def check_prometheus(folder: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        leave_out("promtool is not installed: targets and rules are not checked")
        return
    config = {
        "rule_files": [str(folder / "prometheus/rules.yml")],
        "scrape_configs": [
            {"job_name": "knaster", "file_sd_configs": [{"files": [str(folder / "prometheus/targets.json")]}]}
        ],
    }
    with tempfile.NamedTemporaryFile("w", suffix=".yml") as stream:
        yaml.safe_dump(config, stream)
        stream.flush()
        run(promtool, "check", "config", stream.name)
    rules = sum(
        len(group["rules"]) for group in yaml.safe_load((folder / "prometheus/rules.yml").read_text())["groups"]
    )
    told = run(promtool, "check", "rules", str(folder / "prometheus/rules.yml"))
    if f"{rules} rules found" not in told or "duplicate" in told:
        fail(f"promtool: {told}")
    say(f"promtool takes {folder.name}: {rules} rules")


def check_rules_fire(folder: Path) -> None:
    """The alert of each engine fires when latencies are too high, and only then."""
    promtool = shutil.which("promtool")
    if promtool is None:
        return
    rules = yaml.safe_load((folder / "prometheus/rules.yml").read_text())["groups"][0]["rules"]
    series, expected = [], []
    seen = set()
    for rule in rules:
        labels = rule["labels"]
        if (labels["engine"], labels["slo"]) in seen:
            continue
        seen.add((labels["engine"], labels["slo"]))
        metric = re.search(r"rate\(([a-z_:]+)_bucket", rule["expr"])[1]
        for model, slow in ((labels["model"], True), ("quick", False)):
            own = f'model="{model}",engine="{labels["engine"]}"'
            series += [
                {"series": f'{metric}_bucket{{{own},le="0.01"}}', "values": "0+0x60" if slow else "0+60x60"},
                {"series": f'{metric}_bucket{{{own},le="2"}}', "values": "0+60x60"},
                {"series": f'{metric}_bucket{{{own},le="+Inf"}}', "values": "0+60x60"},
            ]
        expected.append((rule["alert"], {"severity": "warning", **labels}))
    by_alert: dict[str, list[dict[str, t.Any]]] = {}
    for alert, labels in expected:
        by_alert.setdefault(alert, []).append({"exp_labels": labels})
    asks = [{"eval_time": "30m", "alertname": alert, "exp_alerts": alerts} for alert, alerts in by_alert.items()]
    bare = [{**rule, "annotations": {}} for rule in rules]
    with tempfile.TemporaryDirectory() as name:
        Path(name, "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "x", "rules": bare}]}))
        test = {
            "rule_files": ["rules.yml"],
            "tests": [{"interval": "1m", "input_series": series, "alert_rule_test": asks}],
        }
        Path(name, "test.yml").write_text(yaml.safe_dump(test))
        run(promtool, "test", "rules", "test.yml", cwd=name)
    say(f"promtool sees {len(expected)} kinds of alerts fire")


# --- systemd

# How systemd prints a word: as it is, or in double quotes with escapes.
PRINTED = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)', re.DOTALL)
ESCAPED = re.compile(r"\\([0-7]{3}|.)", re.DOTALL)
NAMED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def read_printed(line: str) -> list[str]:
    def unescape(match: re.Match[str]) -> str:
        text = match[1]
        return chr(int(text, 8)) if len(text) == 3 else NAMED.get(text, text)

    return [ESCAPED.sub(unescape, quoted) if plain == "" else plain for quoted, plain in PRINTED.findall(line)]


def check_systemd(folder: Path, expected: dict[str, t.Any]) -> None:
    systemd = Path("/lib/systemd/systemd")
    if not (systemd.exists() and shutil.which("systemd-analyze")) or os.geteuid() != 0:
        leave_out("systemd is not installed, or this is not root: units are not checked")
        return
    paths = sorted(str(folder / "engines" / name) for name in expected)
    told = run("systemd-analyze", "verify", *paths)
    if told.strip():
        fail(f"systemd-analyze: {told[:2000]}")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        work.chmod(0o755)
        for path in paths:
            shutil.copy(path, work)
        units = " ".join(Path(path).name for path in paths)
        (work / "all.target").write_text(f"[Unit]\nWants={units}\n")
        (work / "run").mkdir()
        shutil.chown(work / "run", "nobody")
        env = {
            "SYSTEMD_UNIT_PATH": f"{work}:",
            "XDG_RUNTIME_DIR": f"{work}/run",
            "HOME": "/nonexistent",
            "PATH": os.environ["PATH"],
        }
        command = ["setpriv", "--reuid=nobody", "--clear-groups", str(systemd), "--test", "--user", "--unit=all.target"]
        dumped = subprocess.run(command, env=env, capture_output=True, check=False, timeout=120).stdout.decode(
            errors="replace"
        )
    units_seen = dict(re.findall(r"\t?-> Unit (\S+):\n(.*?)(?=\n\t?-> |\Z)", dumped, re.DOTALL))
    for name, command in expected.items():
        told = units_seen.get(Path(name).name)
        if told is None:
            fail(f"{name}: systemd does not load it")
        line = re.search(r"Command Line: (.*?)\n\t\t\tPID", told + "\n\t\t\tPID", re.DOTALL)
        words = [word.replace("$$", "$") for word in read_printed(line[1].split("\n\t")[0])]
        wanted = ["/usr/bin/env", *command["argv"]]
        if words != wanted:
            fail(f"{name}: systemd starts {words}, not {wanted}")
        for variable, value in command["env"].items():
            if f"\tEnvironment: {variable}={value}\n" not in told:
                fail(f"{name}: systemd does not set {variable} to {value!r}")
    say(f"systemd reads {folder.name}: {len(expected)} units with the words and variables that were meant")


# --- compose and llama-swap


def devices_of(service: dict[str, t.Any]) -> list[str] | None:
    """The GPUs that a container is given by name, or None where it has all or none."""
    reserved = service.get("deploy", {}).get("resources", {}).get("reservations", {}).get("devices", [])
    return next((device["device_ids"] for device in reserved if "device_ids" in device), None)


def check_compose(folder: Path, expected: dict[str, t.Any]) -> None:
    from compose_spec import ComposeSpecification

    paths = {name: folder / "engines" / Path(name).parent / "compose.yaml" for name in expected}
    for path in paths.values():
        ComposeSpecification.model_validate(yaml.safe_load(path.read_text()))
    compose = shutil.which("docker-compose")
    if compose is None:
        leave_out("docker-compose is not installed: compose files are checked against their schema only")
    else:
        files = [word for path in paths.values() for word in ("-f", str(path))]
        read = yaml.safe_load(run(compose, *files, "config", cwd=folder, env={"PATH": os.environ["PATH"]}))["services"]
        for name, command in expected.items():
            service = read[Path(name).stem.removeprefix("knaster-")]
            words = [word.replace("$$", "$") for word in service["entrypoint"]]
            if words[1:] != command["argv"][1:]:
                fail(f"{name}: compose starts {words}, not {command['argv']}")
            env = dict(command["env"])
            ids = devices_of(service)
            if ids is not None:
                # The GPUs are chosen from outside, in place of the variables that choose them.
                wanted = env.pop("CUDA_VISIBLE_DEVICES", None)
                env.pop("CUDA_DEVICE_ORDER", None)
                if ",".join(ids) != wanted or "CUDA_VISIBLE_DEVICES" in service["environment"]:
                    fail(f"{name}: compose gives the GPUs {ids}, not {wanted}")
            for variable, value in env.items():
                if service["environment"][variable].replace("$$", "$") != value:
                    fail(f"{name}: compose sets {variable} to {service['environment'][variable]!r}")
    say(f"compose reads {folder.name}: {len(expected)} services")


# What llama-swap's documented schema says of the keys that are written.
SWAP_KEYS = {
    "cmd",
    "proxy",
    "checkEndpoint",
    "name",
    "description",
    "ttl",
    "capabilities",
    "metadata",
    "aliases",
    "unlisted",
    "useModelName",
}


def check_llama_swap(folder: Path) -> None:
    import shlex

    text = (folder / "gateway/llama-swap.yaml").read_text()
    if "${" in text:
        fail(f"{folder}: llama-swap would look for a macro")
    config = yaml.safe_load(text)
    if set(config) - {"healthCheckTimeout", "models", "groups", "peers"} or config["healthCheckTimeout"] < 15:
        fail(f"{folder}: llama-swap knows no such keys: {set(config)}")
    names: list[str] = []
    for key, model in config["models"].items():
        names += [key, *model.get("aliases", [])]
        if (
            set(model) - SWAP_KEYS
            or len(model["name"]) > 128
            or len(model.get("description", "")) > 1024
            or model["ttl"] < 0
        ):
            fail(f"{folder}: {key}: llama-swap refuses {model}")
        if set(model["capabilities"]) - {"in", "out", "tools", "reranker", "context"} or not shlex.split(model["cmd"]):
            fail(f"{folder}: {key}: llama-swap refuses {model}")
    for key, peer in config.get("peers", {}).items():
        names += peer["models"]
        if set(peer) != {"proxy", "models"} or not all(peer["models"]) or not peer["proxy"].startswith("http://"):
            fail(f"{folder}: {key}: llama-swap refuses {peer}")
    if len(names) != len(set(names)):
        fail(f"{folder}: a name stands twice for llama-swap")
    members = [member for group in config.get("groups", {}).values() for member in group["members"]]
    if sorted(members) != sorted(config["models"]):
        fail(f"{folder}: not every model is in one group of llama-swap")
    say(f"llama-swap's schema holds for {folder.name}: {len(config['models'])} models")


def main() -> None:
    directory = Path(sys.argv[1])
    for name in ("rack", "hostile", "bare-metal", "asked"):
        folder = directory / name
        expected = json.loads((folder / "expected.json").read_text())
        check_prometheus(folder)
        check_systemd(folder, expected)
        check_compose(folder, expected)
        check_llama_swap(folder)
    check_rules_fire(directory / "asked")
    asyncio.run(check_litellm(directory))
    say("every consumer that was asked reads what was written")


if __name__ == "__main__":
    main()
