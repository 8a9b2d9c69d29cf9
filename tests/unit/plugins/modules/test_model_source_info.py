# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import json
import os

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.knaster.inventory.plugins.modules import model_source_info
from ansible_collections.knaster.inventory.tests.peers.hub import SHA, TOKEN, HubHandler, closed_port, serving
from ansible_collections.knaster.inventory.tests.peers.weights import write_safetensors


@pytest.fixture(scope="module")
def hub():
    with serving(HubHandler) as peer:
        yield peer


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name.startswith(("HF_", "HUGGING_FACE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)


@pytest.fixture
def run(capsys):
    def run_module(**args):
        with patch_module_args(args), pytest.raises(SystemExit):
            model_source_info.main()
        text = capsys.readouterr().out
        return json.loads(text), text

    return run_module


@pytest.mark.parametrize("check_mode", [False, True])
def test_what_can_be_had(run, hub, tmp_path, check_mode):
    (tmp_path / "acme/m").mkdir(parents=True)
    write_safetensors(tmp_path / "acme/m/model.safetensors", {"w": ("U8", [1], 1)})
    path = str(tmp_path / "acme/m")
    result, _text = run(sources=["acme/whole", path], endpoint=hub.url, _ansible_check_mode=check_mode)
    assert result["changed"] is False
    assert result["all_available"] is True
    assert result["endpoint"] == hub.url
    assert [(one["source"], one["kind"], one["code"]) for one in result["sources"]] == [
        ("acme/whole", "hub", "ok"),
        (path, "path", "ok"),
    ]
    assert result["sources"][0]["revision"] == SHA
    assert result["sources"][0]["size_gb"] == 16


TEST_NOT_ALL = [
    (["acme/whole", "acme/missing"], ["ok", "not_found"]),
    (["acme/whole", "acme/broken"], ["ok", "server_error"]),
    (["acme/busy", "acme/whole"], ["rate_limited", "rate_limited"]),
    (["what is this"], ["malformed"]),
]


@pytest.mark.parametrize(("sources", "codes"), TEST_NOT_ALL)
def test_what_can_not_be_had_is_no_failure(run, hub, sources, codes):
    result, _text = run(sources=sources, endpoint=hub.url)
    assert "failed" not in result
    assert result["all_available"] is False
    assert [one["code"] for one in result["sources"]] == codes
    assert all(one["remedy"] for one in result["sources"] if one["code"] != "ok")


def test_no_sources_are_all_available(run):
    result, _text = run(sources=[])
    assert (result["all_available"], result["sources"]) == (True, [])


def test_the_environment_names_endpoint_and_token(run, hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    result, text = run(sources=["acme/granted"])
    assert result["sources"][0]["code"] == "ok"
    assert TOKEN not in text


def test_an_option_wins_over_the_environment(run, hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    result, text = run(sources=["acme/granted"], endpoint=hub.url, token=TOKEN)
    assert result["sources"][0]["code"] == "ok"
    assert TOKEN not in text


def test_a_token_from_a_file(run, hub, tmp_path):
    (tmp_path / "token").write_text(TOKEN + "\n")
    result, text = run(sources=["acme/granted", "acme/echo"], endpoint=hub.url, token_path=str(tmp_path / "token"))
    assert [one["code"] for one in result["sources"]] == ["ok", "ok"]
    assert TOKEN not in text


def test_a_token_file_that_is_missing_concerns_the_hub_only(run, hub, tmp_path):
    (tmp_path / "m").mkdir()
    write_safetensors(tmp_path / "m/model.safetensors", {"w": ("U8", [1], 1)})
    missing = str(tmp_path / "none")
    hub.seen.clear()
    result, _text = run(sources=["acme/whole", str(tmp_path / "m"), "x y"], endpoint=hub.url, token_path=missing)
    assert [one["code"] for one in result["sources"]] == ["token_unusable", "ok", "malformed"]
    assert missing in result["sources"][0]["text"]
    assert hub.seen == []


@pytest.mark.parametrize("option", ["timeout", "connect_timeout"])
@pytest.mark.parametrize("value", [0, -1, 10**6, "nan"])
def test_a_limit_that_is_none(run, option, value):
    result, _text = run(sources=["acme/whole"], **{option: value})
    assert result["failed"] is True
    assert option in result["msg"]


@pytest.mark.parametrize(("parallel", "good"), [(0, False), (1, True), (32, True), (33, False)])
def test_so_many_may_be_asked_at_a_time(run, hub, parallel, good):
    result, _text = run(sources=["acme/whole"], endpoint=hub.url, parallel=parallel)
    assert result.get("failed", False) is not good
    assert good or "parallel has to be from 1 to 32" in result["msg"]


def test_two_tokens_are_one_too_many(run):
    result, text = run(sources=["acme/whole"], token="hf_one", token_path="/tmp/two")
    assert result["failed"] is True
    assert "mutually exclusive" in result["msg"]
    assert "hf_one" not in text


def test_the_limits_are_used(run, hub):
    result, _text = run(sources=["acme/silent"], endpoint=hub.url, timeout=0.5)
    assert result["sources"][0]["code"] == "timeout"
    assert "0.5 seconds" in result["sources"][0]["text"]
