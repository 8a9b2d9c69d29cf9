# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.filter.model_fit import FilterModule

FILTERS = FilterModule().filters()
fit = FILTERS["model_fit"]
FACTS = {"weights_gib": 17.5, "kv_bytes_per_token": 262144, "layers": 64, "attention_heads": 64, "kv_heads": 8,
         "head_dim": 128, "vocab": 151936, "hidden": 5120, "intermediate": 25600}  # fmt: skip
MODEL = {"name": "m", "kind": "llm", "engines": ["vllm"], "quantization": "awq", "context": 40960, "memory": FACTS}
NODE = {"name": "n1", "gpus": [
    {"index": index, "name": "NVIDIA L4", "memory_mib": 23034, "compute_cap": 8.9} for index in range(3)
] + [{"index": 3, "name": "Tesla P40", "memory_mib": 23040, "compute_cap": 6.1}]}  # fmt: skip


def by_class(rows):
    return {row["gpu_class"]: row for row in rows}


def test_the_gpus_of_a_fleet_are_answered_for():
    rows = by_class(fit([MODEL], [NODE], 8192))
    assert list(rows) == ["l4", "tesla-p40"]
    # No node has four of them, and two carry it.
    assert (rows["l4"]["in_fleet"], rows["l4"]["gpus"], rows["l4"]["fits"], rows["l4"]["engine"]) == (
        3,
        2,
        True,
        "vllm",
    )
    assert rows["l4"]["largest_context"] == 40960
    old = rows["tesla-p40"]
    assert (old["fits"], old["engine"], old["reason"]) == (
        False,
        None,
        "vllm does not run it on compute capability 6.1",
    )


def test_more_is_asked_for_and_less_finds_room():
    rows = by_class(fit(MODEL, [NODE], 32768, 3))
    assert (rows["l4"]["gpus"], rows["l4"]["fits"]) == (2, False)
    rows = by_class(fit(MODEL, [NODE], "32768", "3", "fp8"))
    assert (rows["l4"]["gpus"], rows["l4"]["fits"]) == (2, True)


def test_every_class_is_answered_for_without_nodes():
    rows = by_class(fit([MODEL], context=8192))
    assert len(rows) > 150
    # M9: two of a class that no profile names; AMD; memory of the host.
    assert [(rows[name]["gpus"], rows[name]["fits"]) for name in ("rtx-5080", "rtx-4080", "rx-7900-xtx")] == [
        (2, True), (2, True), (2, True),
    ]  # fmt: skip
    assert (rows["gb10"]["fits"], rows["gb10"]["reason"]) == (None, "its memory is not known")
    assert "in_fleet" not in rows["l4"]


def test_engines_are_tried_in_the_order_of_the_model():
    both = {**MODEL, "engines": ["vllm", "llamacpp"], "quantization": None}
    rows = by_class(fit([both], [NODE], 8192))
    assert (rows["l4"]["engine"], rows["tesla-p40"]["engine"]) == ("vllm", "llamacpp")
    assert by_class(fit([both], [NODE], 8192, engine="llamacpp"))["l4"]["engine"] == "llamacpp"


def test_a_model_without_facts_may_fit():
    rows = by_class(fit({"name": "m", "kind": "llm", "engines": ["vllm"]}, [NODE]))
    assert (rows["l4"]["fits"], rows["l4"]["bound"]) == (None, "lower")
    assert "unknown: weights, kv_cache" in FILTERS["model_fit_table"](list(rows.values()))


def test_what_a_catalog_says_of_an_engine_counts():
    own = [{"name": "vllm", "kinds": ["llm"], "vendors": ["nvidia"], "overhead_gib": 14.0, "utilisation": 1.0}]
    rows = by_class(fit(MODEL, [NODE], 8192, engines=own))
    terms = {term["name"]: (term["gib"], term["source"]) for term in rows["l4"]["terms"]}
    assert terms["overhead"] == (14.0, "stated")


def test_the_table_has_a_line_for_each_row():
    text = FILTERS["model_fit_table"](fit([MODEL], [NODE], 8192))
    header, first, second = text.splitlines()
    assert header.split()[:3] == ["model", "GPU", "in"]
    assert first.split()[:6] == ["m", "l4", "3", "yes", "2", "vllm"]
    assert second.endswith("vllm does not run it on compute capability 6.1")


@pytest.mark.parametrize(
    ("args", "options", "message"),
    [
        (([{"name": "m"}],), {}, "kind"),
        ((MODEL, [{"name": 5}]), {}, "name"),
        ((MODEL, None, "long"), {}, "context must be a whole number above 0, not long"),
        ((MODEL, None, None, 0), {}, "sequences must be a whole number above 0"),
        ((MODEL, None, None, 1, "q3"), {}, "kv_dtype must be one of auto, "),
        ((MODEL,), {"engine": "vlm"}, "engine must be one of "),
        (({1, 2},), {}, "models: cannot be used as data"),
    ],
)
def test_what_can_not_be_asked_is_told(args, options, message):
    with pytest.raises(AnsibleFilterError, match="The question cannot be answered") as caught:
        fit(*args, **options)
    assert message in str(caught.value)


def test_the_table_takes_only_rows():
    with pytest.raises(AnsibleFilterError, match="needs what model_fit returns"):
        FILTERS["model_fit_table"]([{"model": "m"}])
