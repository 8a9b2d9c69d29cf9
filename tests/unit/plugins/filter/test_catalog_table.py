# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.knaster.inventory.plugins.filter.catalog_table import FilterModule

catalog_table = FilterModule().filters()["catalog_table"]
MODEL = {"name": "m", "kind": "llm", "engines": ["vllm"]}


def test_catalog_table():
    assert catalog_table({"models": [MODEL]}).splitlines()[0] == "Models"


TEST_ERRORS = [
    ((["catalog"],), "needs a catalog, as the lookup knaster.inventory.catalog returns it, found a list"),
    (({"models": [{"name": "m"}]},), "models.0..kind"),
    (({"models": [MODEL]}, [{"gpus": 7}]), "name"),
    (({"models": {1, 2}},), "catalog: cannot be used as data"),
]


@pytest.mark.parametrize(("args", "message"), TEST_ERRORS)
def test_errors(args, message):
    with pytest.raises(AnsibleFilterError, match=message):
        catalog_table(*args)
