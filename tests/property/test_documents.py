# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Whatever is wrong with a document that is read: the same result as before, or an error that names file and place.

A document that its schema still allows is what somebody wanted to write; then there is a result or an error, and never a
traceback.
"""

from __future__ import annotations

import copy
import json
import typing as t

import jsonschema
import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.check import schema_text
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests import SIDECAR, Written, remember
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.vms import vms_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.yaml_text import dump_document, load_document
from ansible_collections.knaster.inventory.plugins.plugin_utils._observe.document import dump_observed
from ansible_collections.knaster.inventory.plugins.plugin_utils._provision.run import Run
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.outputs import Where
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks import report, vms
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.plan import make_plan_file
from ansible_collections.knaster.inventory.plugins.plugin_utils._tasks.registry import (
    load_slots,
    make_outputs,
    read_slots,
)
from ansible_collections.knaster.inventory.tests.peers import documents
from hypothesis import given, settings
from hypothesis import strategies as st

HOSTS = ["n1", "n2", "n3"]
ROLES = [
    {"name": "chat", "needs": {"engine": "vllm", "min_vram_gb": 20}, "count": 2, "slots": ["main", "side"]},
    {"name": "gateway", "needs": {"engine": "llamacpp", "gpu": False}},
    {"name": "huge", "needs": {"engine": "vllm", "min_vram_gb": 900}},
]
MODELS = [
    {
        "name": "big",
        "kind": "llm",
        "vram_gb": 80,
        "engines": ["vllm"],
        "source": "org/big",
        "context": 8192,
        "scaling": {"min": 1, "max": 1},
        "profiles": [{"name": "two", "engine": "vllm", "gpu_class": "l40s", "tp": 2}],
    },
    {"name": "spare", "kind": "llm", "vram_gb": 8, "engines": ["vllm"], "source": "org/spare", "scaling": {"max": 1}}
    | {"profiles": [{"name": "one", "engine": "vllm", "gpu_class": "l40s", "tp": 1}]},
]


def profile(name):
    gpus = [
        {
            "index": at,
            "name": "NVIDIA L40S",
            "gpu_class": "l40s",
            "memory_gb": 48,
            "compute_cap": 8.9,
            "uuid": f"GPU-{name}-{at}",
            "pci": {"address": f"0000:{at + 1:02x}:00.0", "id": "10de:26b1", "iommu_group": at},
        }
        for at in range(2)
    ]
    return {
        "name": name,
        "cpu": {"model": "x", "cores": 32, "threads": 64},
        "memory_gb": 256,
        "disks": [],
        "gpus": gpus,
    }


class Site:
    """All documents of a small fleet as files, and what everything that reads them makes of them."""

    def __init__(self, folder):
        self.folder = folder
        for part in ("profiles", "catalog", "slots"):
            (folder / part).mkdir()
        for name in HOSTS:
            (folder / f"profiles/{name}.json").write_text(json.dumps(profile(name), indent=1) + "\n")
        (folder / "catalog/roles.yaml").write_text(json.dumps({"roles": ROLES}, indent=1))
        (folder / "catalog/models.yaml").write_text(json.dumps({"models": MODELS}, indent=1))
        self.plan, self.vms = folder / "plan.yml", folder / "vms.yml"
        self.observed, self.slots = folder / "observed.json", folder / "slots"
        self.plan.write_text(self.plan_text(fresh=True))
        self.vms.write_text(self.vms_text())
        written = make_outputs(self.read_slots(), Where(slots=self.slots)).written
        for change in written:
            change.write()
        # Without it a slot whose mark is gone would be the file of somebody else.
        remember(Written(change.path, "slot", change.after) for change in written)
        replicas = [
            documents.observed(
                {
                    "id": slot["slot"],
                    "model": slot.get("model"),
                    "node": slot["node"],
                    "idle_seconds": 900,
                    "shards": [{"node": slot["node"], "gpu_indices": [gpu["index"] for gpu in slot["gpus"]]}],
                }
            )
            for slot in load_slots(self.slots)
        ]
        self.observed.write_text(dump_observed(replicas))

    @property
    def fleet(self):
        return {"profiles": self.folder / "profiles", "hosts": HOSTS, "catalog": [str(self.folder / "catalog")]}

    def plan_text(self, *, fresh=False):
        options = {"moves": "none", "rebalance": False, "rescue": True, "passthrough": True}
        return make_plan_file(self.plan, **self.fleet, fresh=fresh, **options).text

    def vms_text(self):
        sources = vms.Sources(vms=self.vms, plan=self.plan, settings={}, **self.fleet)
        return dump_document(vms_document(list(vms.make_vm_files(sources, Run(), None).prepared.definitions.vms)))

    def read_slots(self):
        return read_slots(self.plan, self.fleet["catalog"], self.vms)[0]

    def report(self):
        sources = report.Sources(plan=self.plan, observed=self.observed, slots=self.slots, **self.fleet)
        out = self.folder / "out"
        targets = report.Targets(summary=out / "s.json", metrics=out / "m.prom", page=out / "p.html")
        return [
            change.after
            for change in report.make_fleet_report(sources, targets, title="x", losses=1, passthrough=True).changes
        ]

    READERS: t.ClassVar = {
        "plan.yml": ("plan", ("plan_text", "vms_text", "read_slots", "report")),
        "vms.yml": ("vm", ("vms_text", "read_slots")),
        "slots/chat.0.main.yaml": ("slot", ("report",)),
        "observed.json": ("observed", ("report",)),
        "profiles/n1.json": ("profile", ("plan_text", "vms_text", "report")),
    }

    def results(self, name):
        """What each reader of a file makes of it: its result, or the texts of its error."""
        found = Results()
        for reader in self.READERS[name][1]:
            try:
                found[reader] = getattr(self, reader)()
            except InputError as exc:
                found[reader] = exc
        return found

    def __repr__(self):
        return "Site"


class Results(dict):
    """Results by reader, too long to be shown."""

    def __repr__(self):
        return "Results"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return Site(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def expected(site):
    found = Results({name: Results(site.results(name)) for name in site.READERS})
    assert not [one for results in found.values() for one in results.values() if isinstance(one, InputError)]
    return found


def held(site, name, data):
    """What the readers make of a file that holds this, which is put back afterwards."""
    path = site.folder / name
    before = path.read_bytes()
    try:
        path.write_bytes(data)
        return site.results(name)
    finally:
        path.write_bytes(before)


def judge(site, name, results, expected, *, must_fail):
    for reader, result in results.items():
        if not isinstance(result, InputError):
            assert not must_fail, f"{reader} took it"
            continue
        assert result.errors, reader
        if must_fail:
            where = str(site.folder / name)
            about = [error for error in result.errors if error.startswith(where) or "node n1" in error]
            assert about, (reader, result.errors)
            assert all(len(error) > len(where) + 10 and "\n" not in error for error in about)
            assert not any("afresh" in error or "remove the file" in error for error in about)


def paths_of(value, path=()):
    """Every place in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from paths_of(item, (*path, key))


def at(document, path):
    for key in path:
        document = document[key]
    return document


WRONG = [None, True, -1, 1.5, 10**30, "", "x", "01", [], [None], {}, {"x": 1}]


def is_allowed(document, kind):
    """Whether a document is what a plain reader of the published schema allows."""
    schema = json.loads(schema_text(kind))
    return jsonschema.Draft202012Validator(schema).is_valid(document)


def text_of(document, path):
    return json.dumps(document) if path.suffix == ".json" else dump_document(document)


@pytest.mark.parametrize("name", [name for name in Site.READERS if not name.startswith("profiles")])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_changed_document(site, expected, name, data):
    kind = site.READERS[name][0]
    path = site.folder / name
    original = json.loads(path.read_text()) if path.suffix == ".json" else load_document(path.read_text())
    document = copy.deepcopy(original)
    *above, key = data.draw(st.sampled_from(list(paths_of(document))))
    holder = at(document, above)
    how = data.draw(st.sampled_from(["drop", "retype", "rename"]))
    if how == "drop":
        del holder[key]
    elif how == "retype":
        holder[key] = data.draw(st.sampled_from([one for one in WRONG if type(one) is not type(holder[key])]))
    elif isinstance(key, str):
        holder[key[:-1] + "q"] = holder.pop(key)
    text = text_of(document, path)
    results = held(site, name, text.encode())
    judge(site, name, results, expected[name], must_fail=not is_allowed(document, kind))
    if text == text_of(original, path):
        assert results == expected[name]


def test_a_last_plan_that_names_a_gpu_twice_is_planned_on(site, expected):
    document = load_document(site.plan.read_text())
    del document["replicas"][0]["shards"][0]["gpus"][0]
    results = held(site, "plan.yml", text_of(document, site.plan).encode())
    assert results["plan_text"] == expected["plan.yml"]["plan_text"]


@pytest.mark.parametrize("name", Site.READERS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_a_document_that_was_cut(site, expected, name, data):
    whole = (site.folder / name).read_bytes()
    lines = [at for at in range(len(whole)) if whole[at : at + 1] == b"\n"]
    # A cut at the end of a line is the one that hides best.
    cut = data.draw(st.sampled_from(lines) | st.integers(0, len(whole) - 1))
    results = held(site, name, whole[:cut])
    if whole[:cut].strip() == whole.strip():
        assert results == expected[name]
    else:
        judge(site, name, results, expected[name], must_fail=True)


@pytest.mark.parametrize("name", Site.READERS)
@pytest.mark.parametrize("data", [b"\xff\xfe plan", "---\nversion: 1\n".encode("utf-16"), b"", b"\0" * 8])
def test_what_is_no_text(site, expected, name, data):
    judge(site, name, held(site, name, data), expected[name], must_fail=True)


@pytest.mark.parametrize("name", Site.READERS)
def test_a_conflict_of_versions_is_named(site, expected, name):
    whole = (site.folder / name).read_text().splitlines(keepends=True)
    middle = len(whole) // 2
    text = "".join([*whole[:middle], "<<<<<<< HEAD\n", *whole[middle:], "=======\n", ">>>>>>> theirs\n"])
    results = held(site, name, text.encode())
    judge(site, name, results, expected[name], must_fail=True)
    told = f"{site.folder / name}:{middle + 1}: has an unresolved merge conflict (<<<<<<< HEAD); "
    assert all(any(error.startswith(told) for error in result.errors) for result in results.values())


@pytest.mark.parametrize("name", Site.READERS)
def test_a_directory_in_its_place(site, expected, name):
    path, aside = site.folder / name, site.folder / "aside"
    path.rename(aside)
    path.mkdir()
    try:
        # A directory among the slots is no slot.
        judge(site, name, site.results(name), expected[name], must_fail=not name.startswith("slots"))
    finally:
        path.rmdir()
        aside.rename(path)


def test_what_was_written_and_not_changed_is_taken_without_a_check(site, expected, monkeypatch):
    checked = []
    module = "ansible_collections.knaster.inventory.plugins.plugin_utils._documents.digests.check"
    monkeypatch.setattr(module, lambda _document, kind, *_rest: checked.append(kind) or [])
    files = [(site.folder / name, kind) for name, (kind, _readers) in site.READERS.items() if kind != "profile"]
    files += [(path, "slot") for path in site.slots.glob("*.yaml")]
    remember([Written(path, kind, path.read_text()) for path, kind in files])
    sidecar = site.folder / SIDECAR
    try:
        for name in site.READERS:
            assert site.results(name) == expected[name]
        assert checked == []
        site.plan.write_text(site.plan.read_text() + "\n")
        assert site.results("plan.yml") == expected["plan.yml"]
        assert set(checked) == {"plan"}
        checked.clear()
        # A broken file of digests means the full check.
        for text in ("{", "[]", '{"digests": 3}', '{"digests": {"vms.yml": 3}}'):
            sidecar.write_text(text)
            assert site.results("vms.yml") == expected["vms.yml"]
            assert "vm" in checked
            checked.clear()
    finally:
        sidecar.unlink()
        site.plan.write_text(site.plan.read_text().removesuffix("\n"))
