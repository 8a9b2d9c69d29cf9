# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What starts each shipped model has no option that its engine does not have, and no parser that it does not know."""

from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.capabilities import FAMILIES, args_for
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import read_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.engines import engine_commands

KNOWN = yaml.safe_load((pathlib.Path(__file__).parent / "fixtures/engine_options.yaml").read_text())
MODELS = read_catalog([str(pathlib.Path(__file__).parents[2] / "catalog")]).catalog.models
PARSERS = ("--tool-call-parser", "--reasoning-parser")
PAIRS = [(model, engine) for model in MODELS for engine in model.engines if engine in KNOWN]


def slot_of(model, engine):
    """Return the slot of a model on two GPUs, with everything that a command can have of it."""
    gpus = [{"index": index, "uuid": f"GPU-{index}", "memory_gb": 80} for index in range(2)]
    return {
        "slot": f"{model.name}.0.main",
        "engine": engine,
        "node": "n1",
        "vm": {"name": "vm1"},
        "endpoint": "http://vm1:8000",
        "source": model.source,
        "model": model.name,
        "aliases": list(model.aliases),
        "kind": model.kind,
        "lora": model.lora,
        "context_length": model.context_length,
        "memory_fraction": 0.5,
        "gpus": gpus,
        "profile": {"tp": 2, "args": list(args_for(model, engine))},
    }


@pytest.mark.parametrize(("model", "engine"), [pytest.param(*pair, id=f"{pair[0].name}-{pair[1]}") for pair in PAIRS])
def test_the_engine_knows_every_word(model, engine):
    (command,) = engine_commands(slot_of(model, engine), api_keys=True)
    words = [word for word in command.argv if isinstance(word, str)]
    options = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-m"}
    if engine == "vllm":
        # Its parser takes either (vllm/utils/argparse_utils.py).
        options = {word.replace("_", "-") for word in options}
    assert options
    assert options <= set(KNOWN[engine]["options"])
    for name in PARSERS:
        if name in words:
            assert words[words.index(name) + 1] in KNOWN[engine][name]


def test_there_are_commands_of_every_engine():
    assert {engine for _model, engine in PAIRS} == set(KNOWN)
    assert len(PAIRS) > 200


@pytest.mark.parametrize(("engine", "option"), [(engine, name) for engine in ("vllm", "sglang") for name in PARSERS])
def test_every_parser_of_the_table_is_one_of_the_engine(engine, option):
    capability = "tools" if option == PARSERS[0] else "reasoning"
    named = {family.parsers[engine, capability] for family in FAMILIES if (engine, capability) in family.parsers}
    assert named
    assert named <= set(KNOWN[engine][option])
