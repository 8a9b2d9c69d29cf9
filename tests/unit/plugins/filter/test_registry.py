# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""The filters as templates call them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.filter.registry import FilterModule
from ansible_collections.knaster.inventory.tests.peers import documents

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "peers"))
from slots import KIND_NAMES, fleet

FILTERS = FilterModule().filters()
PLAN = documents.plan(assignments=[{"role": "chat", "replica": 0, "node": "n1"}])


def test_slot_documents():
    plan, vm = PLAN, documents.vm(vmid=7000)
    for vms in ([vm], documents.vms(vm)):
        (slot,) = FILTERS["slot_documents"](plan, {"roles": [], "models": []}, vms, registry_domain="x.example")
        assert slot["vm"]["vmid"] == 7000
    assert FILTERS["slot_documents"](None) == []
    (slot,) = FILTERS["slot_documents"](plan, None, [vm], bare_metal=True)
    assert (slot["bare_metal"], slot["endpoint"]) == (True, "http://n1:8000")


def test_slot_documents_names_all_mistakes():
    catalog = {"models": [{"name": "m"}], "roles": [{"name": "r"}]}
    with pytest.raises(
        AnsibleFilterError, match=r"(?s)^Cannot build the slots, 5 errors:.*version: must be 1, not 3.*models.*roles"
    ):
        FILTERS["slot_documents"](PLAN | {"version": 3}, catalog, documents.vms() | {"vms": "x"})
    with pytest.raises(AnsibleFilterError, match="catalog: must be a map of lists"):
        FILTERS["slot_documents"]({}, [1])
    with pytest.raises(AnsibleFilterError, match=r"plan: assignments\[0\]\.role: is required"):
        FILTERS["slot_documents"](PLAN | {"assignments": [{}]})
    with pytest.raises(AnsibleFilterError, match="plan: cannot be used as data"):
        FILTERS["slot_documents"]({"a": object()})


@pytest.mark.parametrize("name", ["gateway_config", "prometheus_targets", "prometheus_rules", "engine_commands"])
def test_what_is_made_of_slots(name):
    slots = fleet(KIND_NAMES)
    before = json.dumps(slots)
    assert FILTERS[name](slots)
    assert json.dumps(slots) == before
    with pytest.raises(AnsibleFilterError, match=r"(?s)errors:\n- slots\[0\].*slots\[1\]: must be a map, not 7"):
        FILTERS[name]([{"slot": "../x"}, 7])
    with pytest.raises(AnsibleFilterError, match="slots: cannot be used as data"):
        FILTERS[name]([object()])


def test_options_are_checked():
    with pytest.raises(AnsibleFilterError, match='format: must be one of litellm, llama-swap, not "x"'):
        FILTERS["gateway_config"]([], "x")
    with pytest.raises(AnsibleFilterError, match="api_key_env"):
        FILTERS["gateway_config"]([], api_key_env="a-b")
    with pytest.raises(AnsibleFilterError, match="window"):
        FILTERS["prometheus_rules"]([], "soon")
    with pytest.raises(AnsibleFilterError, match="images: vllm"):
        FILTERS["engine_commands"]([], {"vllm": ""})
