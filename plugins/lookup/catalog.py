# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

from __future__ import annotations

DOCUMENTATION = r"""
name: catalog
short_description: Read and check a catalog of models and roles
version_added: 0.1.0
author:
  - Knaster contributors (@knaster)
description:
  - Reads the files C(models.yaml), C(roles.yaml), C(gpus.yaml) and C(engines.yaml) of one or several directories,
    checks everything that they say, and returns it as plain lists.
  - Every error is reported in one go, each with file, line, column, path and what would be right.
    Nothing is returned from a catalog that has an error.
  - Of several directories the later one wins, entry by entry, by name.
    An entry that replaces another one keeps the place of the other in the list.
requirements:
  - PyYAML (it comes with ansible-core)
options:
  _terms:
    description:
      - Directories that hold the files of a catalog.
      - A relative path is seen from the current directory of the user who runs Ansible.
      - Without any it is C(catalog) in that directory, else the catalog that comes with the collection.
    type: list
    elements: path
    default: []
seealso:
  - plugin: knaster.inventory.catalog_errors
    plugin_type: filter
"""

EXAMPLES = r"""
---
- name: Read a catalog
  ansible.builtin.set_fact:
    catalog: "{{ lookup('knaster.inventory.catalog', 'catalog') }}"

- name: Read a shared catalog with changes of this site on top
  ansible.builtin.set_fact:
    catalog: "{{ lookup('knaster.inventory.catalog', '/srv/catalog', 'site/catalog') }}"

- name: Show which file describes a model
  ansible.builtin.debug:
    msg: "{{ catalog.sources.models['qwen3-32b-awq'].file }}"
"""

RETURN = r"""
_raw:
  description:
    - One dictionary that describes the whole catalog, normalised. What is at its default or unknown is left out.
  type: list
  elements: dict
  contains:
    models:
      description: The models in the order in which they were declared.
      type: list
      elements: dict
    roles:
      description: The roles in the order in which they were declared.
      type: list
      elements: dict
    gpus:
      description: The GPU classes that the catalog describes beside the ones that the collection knows.
      type: list
      elements: dict
    engines:
      description: The engines that the catalog describes beside the ones that the collection knows.
      type: list
      elements: dict
    directories:
      description: The directories that were read, as absolute paths.
      type: list
      elements: str
    sources:
      description:
        - Where each entry stands, as a dictionary by list and by name.
        - An entry that replaced others has C(replaces), the places of the others.
      type: dict
      sample:
        models:
          qwen3-32b-awq:
            file: /srv/catalog/models.yaml
            line: 12
    warnings:
      description: Warnings, as one text each.
      type: list
      elements: str
"""

import typing as t

from ansible.errors import AnsibleLookupError
from ansible.module_utils.basic import missing_required_lib
from ansible.plugins.lookup import LookupBase
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.load import (
    YAML_IMPORT_ERROR,
    read_catalog,
)
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.plain import plain_catalog
from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.problems import CatalogError
from ansible_collections.knaster.inventory.plugins.plugin_utils._documents.errors import InputError
from ansible_collections.knaster.inventory.plugins.plugin_utils._edge.catalog import catalog_directories


class LookupModule(LookupBase):
    def run(
        self, terms: list[t.Any], variables: dict[str, t.Any] | None = None, **kwargs: t.Any
    ) -> list[dict[str, t.Any]]:
        del variables
        if kwargs:
            raise AnsibleLookupError(f"there is no option {', '.join(sorted(kwargs))}; name directories only")
        if YAML_IMPORT_ERROR:
            raise AnsibleLookupError(missing_required_lib("PyYAML")) from YAML_IMPORT_ERROR
        try:
            directories = catalog_directories(terms)
            found = read_catalog(directories)
        except (CatalogError, InputError) as exc:
            raise AnsibleLookupError(str(exc)) from None
        document = plain_catalog(found.catalog)
        document["directories"] = directories
        document["sources"] = found.sources
        document["warnings"] = [str(problem) for problem in found.warnings]
        return [document]
