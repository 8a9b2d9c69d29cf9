# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""Roles that share a GPU inside one machine."""

from __future__ import annotations

from .helpers import identified, make_plan, node, places, refusal, role

CHAT = role("chat", 20, engine="vllm", colocate="desk", slots=["chat"], vm={"memory_mib": 8192, "cores": 8})
EMBED = role("embed", 4, engine="infinity", colocate="desk", slots=["embed"], vm={"memory_mib": 4096, "cores": 2})


def test_a_unit_shares_one_card_and_one_machine():
    document = make_plan([node("a", 24, 48)], [CHAT, EMBED])
    assert places(document) == {"chat/0": "a:1", "embed/0": "a:1"}
    assert {one["vm"] for one in document["assignments"]} == {"desk-0"}
    assert {one["memory_mib"] for one in document["assignments"]} == {12288}
    fractions = [one["colocate"]["memory_fraction"] for one in document["assignments"]]
    assert sum(fractions) <= 1
    assert fractions[0] > fractions[1] > 0
    assert document["assignments"][0]["colocate"]["with"] == ["embed/0"]
    assert [row.get("by") for row in document["ledger"]] == [None, "chat/0, embed/0"]
    assert document["nodes"][0]["memory_left_mib"] == 256 * 1024 - 13108 - 12288


def test_without_a_card_for_the_unit_the_members_go_singly():
    document = make_plan([node("a", 24, 16)], [CHAT, EMBED])
    assert places(document) == {"chat/0": "a:0", "embed/0": "a:1"}
    assert all("colocate" not in one for one in document["assignments"])
    assert all("no GPU has room for the unit desk" in one["why"]["text"] for one in document["assignments"])


def test_units_are_made_of_the_replicas_of_one_number():
    chat = {**CHAT, "count": 2}
    document = make_plan([node("a", 48, 24)], [chat, EMBED])
    assert places(document) == {"chat/0": "a:0", "chat/1": "a:1", "embed/0": "a:0"}


def test_a_unit_stays_and_single_members_are_not_moved_to_share():
    nodes = [identified("a", 48)]
    first = make_plan(nodes, [CHAT, EMBED])
    more = [identified("a", 48), identified("b", 48)]
    second = make_plan(more, [CHAT, EMBED], previous=first)
    assert places(second) == {"chat/0": "a:0", "embed/0": "a:0"}
    assert second["changes"]["retained"] == ["chat/0", "embed/0"]
    single = make_plan([identified("a", 24, 24)], [CHAT, EMBED])
    third = make_plan([identified("a", 24, 24), identified("b", 48)], [CHAT, EMBED], previous=single)
    assert places(third) == {"chat/0": "a:0", "embed/0": "a:1"}
    assert third["changes"]["moves"] == []


def test_a_unit_that_has_to_go_moves_whole():
    nodes = [identified("a", 48), identified("b", 48)]
    first = make_plan(nodes, [CHAT, EMBED])
    nodes[0]["state"] = "draining"
    second = make_plan(nodes, [CHAT, EMBED], previous=first)
    assert places(second) == {"chat/0": "b:0", "embed/0": "b:0"}
    assert [move["cause"] for move in second["changes"]["moves"]] == ["drain", "drain"]


def test_a_member_without_any_card_is_refused_like_others():
    document = make_plan([node("a", 24)], [CHAT, EMBED])
    assert places(document) == {"chat/0": "a:0"}
    assert refusal(document, "embed")["code"] == "in_use"
