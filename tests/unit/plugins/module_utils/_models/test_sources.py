# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import base64
import dataclasses
import os
import socket
import subprocess
import threading

import pytest
from ansible_collections.knaster.inventory.plugins.module_utils._http import (
    Hub,
    Limits,
    SourceError,
    checked_endpoint,
)
from ansible_collections.knaster.inventory.plugins.module_utils._models import sources as sources_module
from ansible_collections.knaster.inventory.plugins.module_utils._models.sources import (
    OUTCOMES,
    HubFile,
    Source,
    check_source,
    check_sources,
    find_token,
    list_files,
    parse_source,
    verdict_to_plain,
)
from ansible_collections.knaster.inventory.tests.peers.hub import (
    DIGEST,
    SHA,
    TOKEN,
    HubHandler,
    ProxyHandler,
    certificate,
    closed_port,
    deaf,
    full,
    serving,
)
from ansible_collections.knaster.inventory.tests.peers.weights import write_gguf, write_safetensors

# Patient where the answer comes, impatient where it is the lack of one that is tested.
PATIENT = Limits(connect=20, total=60, max_bytes=300_000)
SHORT = Limits(connect=1, total=1.5, max_bytes=300_000)


@pytest.fixture(scope="module")
def hub():
    with serving(HubHandler) as peer, serving(HubHandler) as other:
        # Another host name makes it another host, although it is this machine again.
        peer.away = other.url.replace("127.0.0.1", "localhost")
        peer.other = other
        yield peer


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def check(source, hub, *, limits=PATIENT, **options):
    options.setdefault("endpoint", hub.url)
    return check_source(source, hub=Hub(**options), limits=limits)


TEST_PARSED = [
    ("/models/x/", Source("/models/x/", path="/models/x")),
    ("/models/../x", Source("/models/../x", path="/x")),
    ("org/name", Source("org/name", repo="org/name")),
    ("gpt2", Source("gpt2", repo="gpt2")),
    ("org/name@v1.0", Source("org/name@v1.0", repo="org/name", revision="v1.0")),
    ("org/name@refs/pr/1", Source("org/name@refs/pr/1", repo="org/name", revision="refs/pr/1")),
    ("org/name:Q4_K_M", Source("org/name:Q4_K_M", repo="org/name", quant="Q4_K_M")),
    ("org/name:Q4_0@v1", Source("org/name:Q4_0@v1", repo="org/name", quant="Q4_0", revision="v1")),
    ("org/name/a/m.gguf", Source("org/name/a/m.gguf", repo="org/name", file="a/m.gguf")),
    ("org/name.gguf", Source("org/name.gguf", repo="org/name.gguf")),
]


@pytest.mark.parametrize(("text", "expected"), TEST_PARSED)
def test_parse_source(text, expected):
    assert parse_source(text) == expected


TEST_MALFORMED = [
    "",
    " ",
    "./models/x",
    "../x",
    "a/b/c",
    "a b/c",
    "org/name@",
    "org/name@a b",
    "org/name@../x",
    "org/name:",
    "org/..",
    "-o/name",
    "https://huggingface.co/org/name",
    "org/name?x=1",
    "org/name\r\nX: y",
    "org/näme",
    "org/name/../../x.gguf",
    "/models/\0",
]


@pytest.mark.parametrize("text", TEST_MALFORMED)
def test_malformed(text):
    assert check_source(text, hub=Hub("http://127.0.0.1:1"), limits=SHORT).code == "malformed"


# Repository, token, code, and whether it can be had.
TEST_ANSWERS = [
    ("whole", None, "ok", True),
    ("whole", TOKEN, "ok", True),
    ("whole@v1.0", None, "ok", True),
    ("whole@refs/pr/1", None, "ok", True),
    ("whole@v9", None, "revision_not_found", False),
    ("old-name", TOKEN, "ok", True),
    ("no-head", None, "ok", True),
    ("gone", None, "file_not_found", False),
    ("quants:q4_k_m", None, "ok", True),
    ("quants:Q5_K_M", None, "file_not_found", False),
    ("quants/m-Q4_K_M.gguf", None, "ok", True),
    ("quants/m-Q5_K_M.gguf", None, "file_not_found", False),
    ("gated", None, "gated", False),
    ("gated", TOKEN, "gated", False),
    ("granted", TOKEN, "ok", True),
    ("private", None, "token_needed", False),
    ("private", "hf_wrong", "token_refused", False),
    ("private", "hf wrong", "token_unusable", None),
    ("private", "hf_wrong\r\nX: y", "token_unusable", None),
    ("private", "hf_wröng", "token_unusable", None),
    ("missing", None, "not_found", False),
    ("missing", TOKEN, "not_found", False),
    ("plain-missing", None, "not_found", False),
    ("forbidden", TOKEN, "forbidden", False),
    ("disabled", None, "disabled", False),
    ("busy", None, "rate_limited", None),
    ("busy-until", None, "rate_limited", None),
    ("busy-for-ever", None, "rate_limited", None),
    ("broken", None, "server_error", None),
    ("teapot", None, "http_error", None),
    ("empty", None, "no_weights", False),
    ("no-files", None, "bad_answer", None),
    ("strange", None, "ok", True),
    ("list", None, "bad_answer", None),
    ("html", None, "not_json", None),
    ("latin", None, "not_json", None),
    ("deep", None, "answer_too_large", None),
    ("huge", None, "answer_too_large", None),
    ("endless", None, "answer_too_large", None),
    ("many-headers", None, "bad_answer", None),
    ("long-header", None, "bad_answer", None),
    ("no-http", None, "bad_answer", None),
    ("cut", None, "connection_lost", None),
    ("cut-chunk", None, "connection_lost", None),
    ("hangs-up", None, "connection_lost", None),
    ("resets", None, "connection_lost", None),
    ("circle", None, "redirect_loop", None),
    ("nowhere", None, "redirect_refused", None),
    ("to-file", None, "redirect_refused", None),
    ("to-bad-port", None, "redirect_refused", None),
    ("away", None, "ok", True),
]


@pytest.mark.parametrize(("repo", "token", "code", "available"), TEST_ANSWERS)
def test_what_the_hub_answers(hub, repo, token, code, available):
    verdict = check(f"acme/{repo}", hub, token=token)
    assert (verdict.code, verdict.available, verdict.kind) == (code, available, "hub")
    assert bool(verdict.remedy) is (code != "ok")
    assert "{" not in verdict.text
    assert token is None or token not in repr(verdict)


@pytest.mark.parametrize("repo", ["drip", "drip-head", "silent"])
def test_a_hub_that_takes_its_time(hub, repo):
    verdict = check(f"acme/{repo}", hub, limits=SHORT)
    assert (verdict.code, verdict.available) == ("timeout", None)
    assert "1.5 seconds" in verdict.text


def test_a_nesting_without_end_is_no_json(hub):
    limits = dataclasses.replace(PATIENT, max_bytes=10**6)
    assert check("acme/deep", hub, limits=limits).code == "not_json"


def test_what_is_known_of_a_source(hub):
    assert verdict_to_plain(check("acme/old-name@v1.0", hub)) == {
        "source": "acme/old-name@v1.0",
        "kind": "hub",
        "available": True,
        "code": "ok",
        "text": "The source can be had.",
        "remedy": "",
        "name": "acme/whole",
        "revision": SHA,
        "gated": False,
        "license": "apache-2.0",
        "size_gb": 16,
        "size_bytes": 16_000_000_000,
        "files": [
            {"name": "model-00001-of-00002.safetensors", "size_bytes": 10_000_000_000, "sha256": DIGEST},
            {"name": "model-00002-of-00002.safetensors", "size_bytes": 6_000_000_000, "sha256": None},
        ],
    }


@pytest.mark.parametrize(
    ("repo", "told"), [("cut-short", "has 9999999999 bytes and not 10000000000"), ("mirrored", "has 31 bytes")]
)
def test_a_file_of_another_length_than_it_is_described_with(hub, repo, told):
    verdict = check(f"acme/{repo}", hub)
    assert (verdict.code, verdict.available) == ("size_differs", False)
    assert told in verdict.text


@pytest.mark.parametrize("digest", ["", "x" * 64, "A" * 64, 7, None, ["a"]])
def test_a_digest_that_is_none_is_not_told(digest):
    assert list_files({"siblings": [{"rfilename": "a", "size": 1, "lfs": {"sha256": digest}}]}) == {"a": HubFile(1)}


TEST_SIZES = [("whole", 16), ("quants:Q8_0", 9), ("quants/m-Q8_0-00001-of-00002.gguf", 5), ("strange", None)]


@pytest.mark.parametrize(("repo", "size"), TEST_SIZES)
def test_the_size_is_that_of_what_is_meant(hub, repo, size):
    assert verdict_to_plain(check(f"acme/{repo}", hub)).get("size_gb") == size


def test_the_hub_says_when_to_come_back(hub):
    plain = verdict_to_plain(check("acme/busy", hub))
    assert plain["retry_after"] == 37
    assert "37 seconds" in plain["text"]
    assert 3500 < check("acme/busy-until", hub).retry_after <= 3600
    assert "retry_after" not in verdict_to_plain(check("acme/busy-for-ever", hub))


def test_the_token_goes_to_the_configured_host_only(hub):
    hub.seen.clear()
    hub.other.seen.clear()
    assert check("acme/away", hub, token=TOKEN).code == "ok"
    assert [(seen.method, seen.headers.get("authorization")) for seen in hub.seen] == [
        ("GET", f"Bearer {TOKEN}"),
        ("HEAD", f"Bearer {TOKEN}"),
    ]
    assert [(seen.path, seen.headers.get("authorization")) for seen in hub.other.seen] == [
        ("/elsewhere/acme/whole", None)
    ]


def test_a_renamed_repository_is_asked_with_the_token(hub):
    hub.seen.clear()
    check("acme/old-name", hub, token=TOKEN)
    assert [seen.headers.get("authorization") for seen in hub.seen] == [f"Bearer {TOKEN}"] * 3


@pytest.mark.parametrize("repo", ["echo", "echo-redirect"])
def test_a_hub_that_repeats_the_token_does_not_get_it_printed(hub, repo):
    assert TOKEN not in repr(check(f"acme/{repo}", hub, token=TOKEN))
    assert "***" in repr(check(f"acme/{repo}", hub, token=TOKEN))


def test_the_token_is_not_in_what_is_printed_of_a_hub():
    assert TOKEN not in repr(Hub(token=TOKEN, proxies={"http": f"http://u:{TOKEN}@proxy"}))


def test_nobody_listens(hub):
    verdict = check("acme/whole", hub, endpoint=f"http://127.0.0.1:{closed_port()}")
    assert (verdict.code, verdict.available) == ("connection_refused", None)


def test_nobody_answers(hub):
    with deaf() as url:
        assert check("acme/whole", hub, endpoint=url, limits=SHORT).code == "timeout"


def test_nobody_accepts(hub):
    with full() as url:
        verdict = check("acme/whole", hub, endpoint=url, limits=SHORT)
    assert verdict.code == "connect_timeout"
    assert "within 1 seconds" in verdict.text


def test_the_name_can_not_be_resolved(hub, monkeypatch):
    def fail(*args, **kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    assert check("acme/whole", hub, endpoint="http://hub.invalid").code == "dns_failure"
    assert check("acme/whole", hub, endpoint=f"http://{'x' * 70}.invalid").code == "dns_failure"


def test_a_name_server_that_does_not_answer_holds_nobody_up(hub, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kwargs: over.wait(60) and [])
    assert check("acme/whole", hub, endpoint="http://hub.invalid", limits=SHORT).code == "connect_timeout"
    over.set()


def test_the_network_is_away(hub, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "create_connection", fail)
    verdict = check("acme/whole", hub)
    assert verdict.code == "unreachable"
    assert "network is unreachable" in verdict.text


TEST_ENDPOINTS = [
    "huggingface.co",
    "ftp://hub.example",
    "https://",
    "https://user:secret@hub.example",
    "https://hub.example?x=1",
    "https://hub.example/#x",
    "https://hub.example:port",
    "https://hub.example:0",
    "https://hub .example",
    "https://hüb.example",
    "https://[::1",
    "",
]


@pytest.mark.parametrize("endpoint", TEST_ENDPOINTS)
def test_an_endpoint_that_is_none(hub, endpoint):
    verdict = check("acme/whole", hub, endpoint=endpoint)
    assert (verdict.code, verdict.available) == ("endpoint_malformed", None)
    assert "secret" not in verdict.text


def test_an_endpoint_may_have_a_path():
    assert checked_endpoint("https://mirror.example:8443/hf/") == "https://mirror.example:8443/hf"


# --- TLS and proxies ---


@pytest.fixture(scope="module")
def tls(tmp_path_factory, hub):
    context, trusted = certificate(tmp_path_factory.mktemp("tls"))
    with serving(HubHandler, context=context) as peer:
        peer.away = hub.url
        peer.trusted = trusted
        yield peer


def test_tls_with_a_trusted_certificate(tls):
    assert check("acme/whole", tls, ca_path=tls.trusted).code == "ok"


def test_tls_without_checking(tls):
    assert check("acme/whole", tls, verify=False).code == "ok"


def test_tls_with_an_unknown_authority(tls):
    verdict = check("acme/whole", tls, token=TOKEN)
    assert verdict.code == "tls_failure"
    assert "self" in verdict.text


def test_tls_with_another_name(tmp_path):
    context, trusted = certificate(tmp_path, name="hub.example")
    with serving(HubHandler, context=context) as peer:
        verdict = check("acme/whole", peer, ca_path=trusted, token=TOKEN)
        assert peer.seen == []
    assert verdict.code == "tls_failure"
    assert "127.0.0.1" in verdict.text


def test_tls_with_a_certificate_of_yesterday(tmp_path):
    context, trusted = certificate(tmp_path, days=-1)
    with serving(HubHandler, context=context) as peer:
        verdict = check("acme/whole", peer, ca_path=trusted)
    assert verdict.code == "tls_failure"
    assert "expired" in verdict.text


def test_tls_with_a_server_that_speaks_none(hub):
    assert check("acme/whole", hub, endpoint=hub.url.replace("http:", "https:")).code == "tls_failure"


def test_tls_with_authorities_that_can_not_be_read(tls, tmp_path):
    assert check("acme/whole", tls, ca_path=str(tmp_path / "none.pem")).code == "tls_failure"


def test_no_way_from_tls_to_plain_http(tls, hub):
    hub.seen.clear()
    verdict = check("acme/to-plain-http", tls, ca_path=tls.trusted, token=TOKEN)
    assert verdict.code == "redirect_refused"
    assert hub.seen == []


@pytest.fixture
def proxy():
    with serving(ProxyHandler) as peer:
        peer.wanted = "Basic " + base64.b64encode(b"user:pass word").decode()
        yield peer


def with_password(proxy):
    return proxy.url.replace("//", "//user:pass%20word@")


def test_plain_http_through_a_proxy(hub, proxy):
    assert check("acme/whole", hub, proxies={"http": with_password(proxy)}).code == "ok"
    assert proxy.seen[0].path.startswith(hub.url + "/api/models/acme/whole")


def test_tls_through_a_proxy_shows_it_no_token(tls, proxy):
    proxies = {"https": with_password(proxy)}
    assert check("acme/whole", tls, ca_path=tls.trusted, proxies=proxies, token=TOKEN).code == "ok"
    assert {seen.method for seen in proxy.seen} == {"CONNECT"}
    assert all("authorization" not in seen.headers for seen in proxy.seen)


def test_the_environment_names_the_proxy(hub, proxy, monkeypatch):
    monkeypatch.setenv("http_proxy", with_password(proxy))
    assert check("acme/whole", hub).code == "ok"
    assert proxy.seen
    proxy.seen.clear()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert check("acme/whole", hub).code == "ok"
    assert proxy.seen == []


def test_a_proxy_that_wants_a_password(hub, tls, proxy):
    for scheme, peer in (("http", hub), ("https", tls)):
        verdict = check("acme/whole", peer, proxies={scheme: proxy.url.replace("//", "//user:secret@")})
        assert verdict.code == "proxy_failure"
        assert "secret" not in repr(verdict)


def test_a_proxy_that_can_not_reach_the_hub(tls, proxy):
    verdict = check(
        "acme/whole", tls, endpoint=f"https://127.0.0.1:{closed_port()}", proxies={"https": with_password(proxy)}
    )
    assert verdict.code == "proxy_failure"
    assert "502" in verdict.text


TEST_PROXIES = [
    "http://127.0.0.1:{port}",
    "socks5://127.0.0.1:1080",
    "https://127.0.0.1",
    "http://127.0.0.1:port",
    "http://",
]


@pytest.mark.parametrize("address", TEST_PROXIES)
def test_a_proxy_that_is_none(hub, address):
    assert check("acme/whole", hub, proxies={"http": address.format(port=closed_port())}).code == "proxy_failure"


# --- many sources ---


def test_an_endpoint_that_fails_is_asked_once(hub):
    hub.seen.clear()
    sources = ["acme/busy", "acme/whole", "/nonexistent/model", "acme/broken"]
    verdicts = check_sources(sources, hub=Hub(hub.url), limits=PATIENT)
    assert [verdict.code for verdict in verdicts] == ["rate_limited", "rate_limited", "path_missing", "rate_limited"]
    assert [verdict.source for verdict in verdicts] == sources
    assert len(hub.seen) == 1


def test_a_repository_that_fails_says_nothing_of_the_others(hub):
    hub.seen.clear()
    verdicts = check_sources(["acme/missing", "acme/whole", "x y", "acme/whole"], hub=Hub(hub.url), limits=PATIENT)
    assert [verdict.code for verdict in verdicts] == ["not_found", "ok", "malformed", "ok"]
    assert len(hub.seen) == 3


@pytest.mark.parametrize("parallel", [1, 3, 32])
def test_many_at_a_time_answer_in_their_order(hub, tmp_path, parallel):
    write_gguf(tmp_path / "m-Q4_0.gguf", {}, 32)
    sources = [
        "acme/missing",
        str(tmp_path / "m-Q4_0.gguf"),
        *["acme/whole", "acme/gated", "acme/quants:Q8_0"] * 3,
        "x y",
    ]
    hub.seen.clear()
    verdicts = check_sources(sources, hub=Hub(hub.url), limits=PATIENT, parallel=parallel)
    assert [one.source for one in verdicts] == sources
    assert [one.code for one in verdicts] == ["not_found", "ok", *["ok", "gated", "ok"] * 3, "malformed"]
    # A description of each, and a question for one file of those that have some.
    assert len(hub.seen) == 7


# --- tokens ---


def test_where_a_token_comes_from(tmp_path):
    file = tmp_path / "token"
    file.write_text("hf_file\n")
    home = tmp_path / ".cache/huggingface"
    home.mkdir(parents=True)
    (home / "token").write_text("hf_home")
    assert find_token({}, str(file)) == "hf_file"
    assert find_token({"HF_TOKEN": "hf_env"}, str(file)) == "hf_file"
    assert find_token({"HF_TOKEN": " hf_env\n", "HF_TOKEN_PATH": str(file)}) == "hf_env"
    assert find_token({"HUGGING_FACE_HUB_TOKEN": "hf_old"}) == "hf_old"
    assert find_token({"HF_TOKEN_PATH": str(file)}) == "hf_file"
    assert find_token({"HOME": str(tmp_path)}) == "hf_home"
    assert find_token({"HF_HOME": str(home), "HF_TOKEN": ""}) == "hf_home"
    assert find_token({"XDG_CACHE_HOME": str(tmp_path / ".cache")}) == "hf_home"
    assert find_token({}) is None


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe"])
def test_a_token_file_that_is_of_no_use(tmp_path, content):
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(SourceError, match="token_unusable"):
        find_token({}, str(tmp_path / "token"))


# --- paths ---


def write(path, size=10):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as stream:
        stream.truncate(size)


def check_path(path, limits=PATIENT):
    return check_source(str(path), hub=Hub("http://127.0.0.1:1"), limits=limits)


def test_a_path_with_weights(tmp_path):
    (tmp_path / "acme/my model").mkdir(parents=True)
    write_safetensors(tmp_path / "acme/my model/model.safetensors", {"w": ("U8", [300_000_000], 300_000_000)})
    verdict = check_path(tmp_path / "acme/my model")
    assert (verdict.code, verdict.available, verdict.kind) == ("ok", True, "path")
    assert verdict_to_plain(verdict)["name"] == "acme/my model"
    assert verdict_to_plain(verdict)["size_gb"] == 0.3


def test_a_path_with_a_gguf_file(tmp_path):
    write_gguf(tmp_path / "m-Q4_0.gguf", {}, 32)
    write(tmp_path / "m-Q8_0-00001-of-00002.gguf")
    assert check_path(tmp_path / "m-Q4_0.gguf").code == "ok"
    assert check_path(tmp_path / "m-Q5_0.gguf").code == "path_missing"
    verdict = check_path(tmp_path / "m-Q8_0-00001-of-00002.gguf")
    assert verdict.code == "weights_partial"
    assert "1 of 2" in verdict.text


def test_a_file_that_is_shorter_than_its_own_header_says(tmp_path):
    half, whole = tmp_path / "half-Q4_0.gguf", tmp_path / "whole-Q4_0.gguf"
    write_gguf(whole, {}, 32)
    size = whole.stat().st_size
    half.write_bytes(whole.read_bytes()[:-1])
    assert check_path(whole).code == "ok"
    verdict = check_path(half)
    assert (verdict.code, verdict.available) == ("weights_partial", False)
    assert f"{size - 1} of {size} bytes" in verdict.text
    half.write_bytes(b"GGUF")
    assert check_path(half).code == "weights_partial"
    (tmp_path / "m").mkdir()
    write_safetensors(tmp_path / "m/model.safetensors", {"w": ("U8", [100], 100)})
    assert check_path(tmp_path / "m").code == "ok"
    os.truncate(tmp_path / "m/model.safetensors", (tmp_path / "m/model.safetensors").stat().st_size - 1)
    verdict = check_path(tmp_path / "m")
    assert verdict.code == "weights_partial"
    assert "1 bytes of the tensors are missing" in verdict.text


def test_a_file_that_is_not_read_in_time(tmp_path, monkeypatch):
    write_gguf(tmp_path / "m-Q4_0.gguf", {}, 32)
    over = threading.Event()
    monkeypatch.setattr(sources_module, "check_lengths", lambda weights: over.wait(60))
    verdict = check_path(tmp_path / "m-Q4_0.gguf", SHORT)
    over.set()
    assert (verdict.code, verdict.available) == ("path_timeout", None)


def test_a_snapshot_in_a_cache(tmp_path):
    cache = tmp_path / "models--acme--m"
    (cache / "blobs").mkdir(parents=True)
    write_safetensors(cache / "blobs/aa", {"w": ("U8", [1], 1)})
    write(cache / "blobs/bb.incomplete")
    snapshot = cache / "snapshots" / SHA
    snapshot.mkdir(parents=True)
    (snapshot / "model-00001-of-00002.safetensors").symlink_to("../../blobs/aa")
    verdict = check_path(snapshot)
    assert verdict.code == "weights_partial"
    assert "1 of 2" in verdict.text
    (snapshot / "model-00002-of-00002.safetensors").symlink_to("../../blobs/aa")
    verdict = check_path(snapshot)
    assert (verdict.code, verdict.revision, verdict.name) == ("ok", SHA, "acme/m")
    assert check_path(cache).code == "no_weights"


def test_paths_without_weights(tmp_path):
    write(tmp_path / "org/m/model.safetensors")
    write(tmp_path / "org/empty/config.json")
    assert check_path(tmp_path / "org").code == "no_weights"
    assert check_path(tmp_path / "org/empty").code == "no_weights"
    assert check_path(tmp_path / "org/m/model.safetensors").code == "no_weights"
    assert check_path(tmp_path / "none").code == "path_missing"
    assert check_path(tmp_path / "-rf; echo directory").code == "path_missing"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_path_that_may_not_be_read(tmp_path):
    write(tmp_path / "m/model.safetensors")
    (tmp_path / "m").chmod(0)
    assert check_path(tmp_path / "m").code == "path_unreadable"


def test_a_path_whose_share_is_dead(tmp_path, monkeypatch):
    # The shell stands still as it does at a share whose server is gone, and does not end when asked to.
    monkeypatch.setattr(sources_module, "_LOOK", "trap '' TERM; sleep 60; :")
    started = []
    real = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *args, **kwargs: started.append(real(*args, **kwargs)) or started[0]
    )
    verdict = check_path(tmp_path, SHORT)
    assert (verdict.code, verdict.available) == ("path_timeout", None)
    assert started[0].wait(20) != 0


def test_every_outcome_has_a_sentence_and_a_remedy():
    for code, (available, text, remedy) in OUTCOMES.items():
        assert available in (True, False, None)
        assert text.endswith(".")
        assert (remedy == "") is (code == "ok")
