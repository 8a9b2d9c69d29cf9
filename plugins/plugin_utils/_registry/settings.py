# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this plugin util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""What somebody says of the outputs of the registry beside the slots themselves."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.plugin_utils._catalog.values import ENV_NAME
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.names import is_address
from ansible_collections.knaster.inventory.plugins.plugin_utils._text.words import shown

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Who made a GPU, and the word for none.
HARDWARE = ("nvidia", "amd", "intel", "cpu")
# Seconds that an engine has for a whole answer unless somebody says otherwise.
REQUEST_TIMEOUT = 600
_MAX_TIMEOUT = 86400
USER = "knaster"
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}", re.ASCII)
_DIRECTORY = re.compile(r"/[^\x00-\x1f\x7f:]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How engines are started and asked.

    :param images: container images by engine, one for all GPUs or by maker (``nvidia``, ``amd``, ``intel``, ``cpu``)
    :param programs: the directory of an engine's programs by engine
    :param user: whose processes engines are; empty is root
    :param listen: the address that engines listen on; empty is that of their endpoint, or all where they have a key
    :param api_keys: whether engines want a key
    :param api_key_env: the variable of the gateway with that key
    :param request_timeout: seconds until a gateway gives up an engine that does not answer
    """

    images: Mapping[str, str | Mapping[str, str]] = field(default_factory=dict)
    programs: Mapping[str, str] = field(default_factory=dict)
    user: str = USER
    listen: str = ""
    api_keys: bool = False
    api_key_env: str = ""
    request_timeout: int = REQUEST_TIMEOUT


def find_setting_errors(settings: Settings) -> list[str]:
    """Return what is wrong with settings, one text for each."""
    return [
        *_image_errors(settings.images),
        *_program_errors(settings.programs),
        *_word_errors(settings),
        *find_timeout_errors(settings.request_timeout),
    ]


def find_timeout_errors(request_timeout: t.Any) -> list[str]:
    """Return what is wrong with the seconds that an engine has for an answer."""
    is_number = isinstance(request_timeout, int) and not isinstance(request_timeout, bool)
    if is_number and 1 <= request_timeout <= _MAX_TIMEOUT:
        return []
    return [f"request_timeout: expected seconds from 1 to {_MAX_TIMEOUT}, not {shown(request_timeout)}"]


def _image_errors(images: t.Any) -> Iterator[str]:
    if not isinstance(images, dict):
        yield "images: expected a dictionary of images by engine"
        return
    for engine, image in images.items():
        by_maker = image if isinstance(image, dict) else {"cpu": image}
        unknown = [str(maker) for maker in by_maker if maker not in HARDWARE]
        if unknown:
            yield f"images: {engine}: {unknown[0]!r} must be one of {', '.join(HARDWARE)}"
        if not by_maker or not all(isinstance(name, str) and name for name in by_maker.values()):
            yield f"images: {engine}: expected the name of an image, or one for each of {', '.join(HARDWARE)}"


def _program_errors(programs: t.Any) -> Iterator[str]:
    if not isinstance(programs, dict):
        yield "programs: expected a dictionary of directories by engine"
        return
    for engine, directory in programs.items():
        if not isinstance(directory, str) or not _DIRECTORY.fullmatch(directory):
            yield f"programs: {engine}: expected an absolute path without colons, not {shown(directory)}"


def _word_errors(settings: Settings) -> Iterator[str]:
    if settings.api_key_env and not ENV_NAME.fullmatch(settings.api_key_env):
        yield f"api_key_env: {settings.api_key_env!r} is not the name of a variable; write letters, digits and _"
    if settings.user and not _USER.fullmatch(settings.user):
        yield f"engine_user: {settings.user!r} is not the name of a user"
    if settings.listen and not is_address(settings.listen):
        yield f"listen: {settings.listen!r} is not an address, such as 0.0.0.0"
