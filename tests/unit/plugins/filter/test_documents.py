# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import datetime as dt

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.filter import plan as plan_filters
from ansible_collections.knaster.inventory.plugins.filter import provision as provision_filters
from ansible_collections.knaster.inventory.plugins.filter import registry as registry_filters
from ansible_collections.knaster.inventory.plugins.filter.documents import FilterModule
from ansible_collections.knaster.inventory.tests.peers import documents

PLANS, VMS, SLOTS = (module.FilterModule().filters() for module in (plan_filters, provision_filters, registry_filters))
FILTERS = FilterModule().filters()


def test_there_and_back():
    document = {"version": 1, "assignments": [{"role": "chat"}]}
    assert FILTERS["from_document"](FILTERS["to_document"](document)) == document


TEST_ERRORS = [
    ("to_document", [1], "to_document: needs a dictionary, found a list"),
    ("to_document", {"when": dt.date(2026, 1, 1)}, "to_document: the document: cannot be used as data"),
    ("to_document", {"x": float("nan")}, "to_document: "),
    ("from_document", 7, "from_document: needs a text, found 7"),
    ("from_document", "- a\n", "from_document: does not hold a map"),
]


@pytest.mark.parametrize(("name", "value", "message"), TEST_ERRORS)
def test_wrong_input_is_one_clear_error(name, value, message):
    with pytest.raises(AnsibleFilterError) as caught:
        FILTERS[name](value)
    assert str(caught.value).startswith(message)


SEAT = {"role": "chat", "replica": 0, "node": "n"}
SHARD = {"node": "n", "gpu_indices": "01"}
# Plans that somebody edited, by the filter that gets them: one clear sentence, never a traceback or a wrong result.
TEST_EDITED = [
    (
        lambda plan: PLANS["plan"]([], previous=plan),
        documents.plan(assignments=[{**SEAT, "replica": "x"}]),
        'previous: assignments[0].replica: must be a whole number, not "x"',
    ),
    (
        PLANS["plan_table"],
        {**documents.plan(), "assignments": [{"role": "chat", "replica": 0}]},
        "plan: assignments[0].node: is required",
    ),
    (
        VMS["vm_definitions"],
        documents.plan(assignments=[{**SEAT, "memory_mib": "big"}]),
        'plan: assignments[0].memory_mib: must be a whole number, not "big"',
    ),
    (
        SLOTS["slot_documents"],
        documents.plan(replicas=[{"model": "m", "replica": 0, "shards": [SHARD]}]),
        'plan: replicas[0].shards[0].gpu_indices: must be a list, not "01"',
    ),
]


@pytest.mark.parametrize(("call", "plan", "message"), TEST_EDITED)
def test_a_plan_that_was_edited_is_one_clear_error(call, plan, message):
    with pytest.raises(AnsibleFilterError) as caught:
        call(plan)
    assert message in str(caught.value)
