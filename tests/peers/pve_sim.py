# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

# It follows the order and the words of a real server closely, and with them its long functions.
# ruff: noqa: BLE001, FBT002, N815, N818, PLR0911, PLR0912, PLR0917, PLW2901, TRY301, UP031

"""A pretended Proxmox VE API server for tests.

It speaks HTTPS on a loopback address, checks every request against a table of what the collection
uses of the API (``pve_api.yaml``: methods, parameters, permissions), keeps nodes, storages, PCI
mappings, guests and tasks in memory (and, if asked, in a JSON file), and behaves like a cluster
where a client can notice: tasks that take time, guests that are locked, changes that stay
pending while a guest runs, mappings that do not match the hardware when a guest starts.

It is a test peer, not a security boundary: bind it to loopback only.

Run it::

    python pve_sim.py --seed seed.json --port 0 --port-file port --log calls.jsonl

or in a test::

    sim = PveSim(seed_dict); url = sim.start(); ...; sim.stop()

What a request meets, in this order (the order of a real server):
  1. injected faults (``PVE_SIM_FAULTS`` or ``POST /_sim/faults``)
  2. authentication: ``PVEAPIToken=user@realm!name=secret`` or a ticket (with a CSRF header to write)
  3. the permission rule of the method in the table
  4. the parameter schema: unknown, missing, type, format, pattern, range, enumeration -> 400 with
     ``{"data": null, "message": "Parameter verification failed.\\n", "errors": {...}}``
  5. the behaviour written below; what is not in the table -> 501

Control endpoints (no authentication): ``GET /_sim/state``, ``GET /_sim/calls``,
``POST /_sim/faults`` (JSON list, replaces), ``POST /_sim/patch`` (JSON merged into the state),
``POST /_sim/settle`` (finish every running task now).

Faults are a JSON list; the first one that matches and has ``times`` left (default 1, -1 = always)
is applied::

    [{"match": "POST /nodes/[^/]+/qemu$", "kind": "http", "status": 500, "message": "boom"},
     {"match": "PUT .*/config$",  "kind": "lock"},          # 500 can't lock file ... got timeout
     {"match": "GET /version",    "kind": "drop"},          # connection closed, no answer
     {"match": "GET /nodes$",     "kind": "delay", "seconds": 3},
     {"match": "GET /nodes$",     "kind": "garbage"},       # 200 with a body that is not JSON
     {"match": "POST .*",         "kind": "auth"},          # 401
     {"match": "POST .*/start$",  "kind": "task_fail", "message": "start failed: QEMU exited with code 1"},
     {"match": "POST .*/qemu$",   "kind": "task_slow", "seconds": 60},
     {"match": "POST .*/qemu$",   "kind": "task_hang"},
     {"match": "GET .*",          "kind": "http", "status": 595, "message": "No route to host"}]
"""

from __future__ import annotations

import argparse
import copy
import functools
import hashlib
import ipaddress
import json
import os
import re
import secrets
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import yaml

TABLE = Path(__file__).with_name("pve_api.yaml")

TRUE_WORDS, FALSE_WORDS = {"1", "on", "yes", "true"}, {"0", "off", "no", "false"}
CONFIG_ID = r"[a-zA-Z][a-zA-Z0-9_-]+"
NODE_NAME = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
PCI_ADDR = r"(?:[a-f0-9]{4,}:)?[a-f0-9]{2}:[a-f0-9]{2}(?:\.[a-f0-9])?"
DRIVE_KEY = re.compile(r"(?:ide|sata|scsi|virtio)\d+|efidisk0|tpmstate0")
HEX_ID = {"type": "string", "optional": 1, "pattern": "0x[0-9a-fA-F]{4}"}
BOOL = {"type": "boolean", "optional": 1}

# Property strings of which PVE's schema has the name alone.
HOSTPCI = {
    "host": {"type": "string", "optional": 1, "default_key": 1, "pattern": PCI_ADDR + "(?:;" + PCI_ADDR + ")*"},
    "mapping": {"type": "string", "optional": 1, "format": "pve-configid"},
    "rombar": BOOL,
    "pcie": BOOL,
    "x-vga": BOOL,
    "legacy-igd": BOOL,
    "romfile": {"type": "string", "optional": 1, "pattern": "[^,;]+"},
    "mdev": {"type": "string", "optional": 1, "pattern": r"[^/\.:]+"},
    "vendor-id": HEX_ID,
    "device-id": HEX_ID,
    "sub-vendor-id": HEX_ID,
    "sub-device-id": HEX_ID,
    "driver": {"type": "string", "optional": 1, "enum": ["vfio", "keep"]},
}
CPU = {
    "cputype": {"type": "string", "optional": 1, "default_key": 1, "pattern": "[A-Za-z0-9_.-]+"},
    "flags": {"type": "string", "optional": 1, "pattern": r"[+-][A-Za-z0-9_.-]+(?:;[+-][A-Za-z0-9_.-]+)*"},
    "hidden": BOOL,
    "hv-vendor-id": {"type": "string", "optional": 1, "pattern": "[a-zA-Z0-9]{1,12}"},
    "phys-bits": {"type": "string", "optional": 1, "pattern": r"\d{1,2}|host"},
    "guest-phys-bits": {"type": "integer", "optional": 1, "minimum": 32, "maximum": 64},
    "reported-model": {"type": "string", "optional": 1},
}
BOOT = {
    "legacy": {"type": "string", "optional": 1, "default_key": 1, "pattern": "[acdn]{1,4}"},
    "order": {"type": "string", "optional": 1, "pattern": r"[a-z]+\d+(?:;[a-z]+\d+)*"},
}
IPCONFIG = {
    "ip": {"type": "string", "optional": 1, "format": "pve-ipv4-config"},
    "gw": {"type": "string", "optional": 1, "format": "ipv4"},
    "ip6": {"type": "string", "optional": 1, "format": "pve-ipv6-config"},
    "gw6": {"type": "string", "optional": 1, "format": "ipv6"},
}
for _four, _gate in (("gw", "ip"), ("gw6", "ip6")):
    IPCONFIG[_four]["requires"] = _gate
CICUSTOM = {
    key: {"type": "string", "optional": 1, "format": "pve-volume-id"} for key in ("meta", "network", "user", "vendor")
}
NUMBER = {"type": "integer", "optional": 1}
RNG = {
    "source": {"type": "string", "default_key": 1, "enum": ["/dev/urandom", "/dev/random", "/dev/hwrng"]},
    "max_bytes": NUMBER,
    "period": NUMBER,
}
WATCHDOG = {
    "model": {"type": "string", "optional": 1, "default_key": 1, "enum": ["i6300esb", "ib700"]},
    "action": {"type": "string", "optional": 1, "enum": ["reset", "shutdown", "poweroff", "pause", "debug", "none"]},
}
SMBIOS = {
    k: {"type": "string", "optional": 1} for k in ("version", "serial", "manufacturer", "product", "sku", "family")
}
SMBIOS.update(
    uuid={"type": "string", "optional": 1, "pattern": "[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}"},
    base64=BOOL,
)
NAMED = {
    "pve-qm-hostpci": HOSTPCI,
    "pve-vm-cpu-conf": CPU,
    "pve-qm-boot": BOOT,
    "pve-qm-ipconfig": IPCONFIG,
    "pve-qm-cicustom": CICUSTOM,
    "pve-qm-rng": RNG,
    "pve-qm-watchdog": WATCHDOG,
    "pve-qm-smbios1": SMBIOS,
}
# How many of each numbered option exist; the schema only says "[n]".
SLOTS = {
    "hostpci": 16,
    "net": 32,
    "ipconfig": 32,
    "scsi": 31,
    "virtio": 16,
    "sata": 6,
    "ide": 4,
    "numa": 8,
    "usb": 14,
    "serial": 4,
    "parallel": 3,
    "unused": 256,
    "virtiofs": 10,
}

TEXT_FORMATS = {
    "pve-configid": (CONFIG_ID, "invalid configuration ID '%s'"),
    "pve-node": (NODE_NAME, "value does not look like a valid node name"),
    "pve-vmid": (r"[1-9][0-9]{2,8}", "value does not look like a valid VM ID"),
    "dns-name": (
        r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?",
        "value does not look like a valid DNS name",
    ),
    "pve-storage-id": (r"[a-zA-Z][a-zA-Z0-9._-]*[a-zA-Z0-9]", "storage ID '%s' contains illegal characters"),
    "pve-poolid": (r"[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+){0,2}", "invalid pool name"),
    "pve-tag": (r"[a-zA-Z0-9_][a-zA-Z0-9_+.-]*", "invalid characters in tag"),
    "urlencoded": (r"[-%a-zA-Z0-9_.!~*'()]*", "invalid urlencoded string: %s"),
    "pve-startup-order": (
        r"(?:order=)?\d+(?:,(?:up|down)=\d+)*|(?:up|down)=\d+(?:,(?:up|down)=\d+)*",
        "unable to parse startup options",
    ),
    "pve-cpuset": (r"\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*", "unable to parse cpuset option"),
    "pve-volume-id": (r"[a-zA-Z][a-zA-Z0-9._-]*:\S+", "unable to parse volume ID '%s'"),
    "mac-addr": (r"(?i)[0-9a-f][02468ace](?::[0-9a-f]{2}){5}", "value does not look like a valid unicast MAC address"),
    "pve-bridge-id": (r"[-_.\w\d]+", "invalid bridge"),
}

ADDRESSES = {
    "pve-ipv4-config": "ipv4 network configuration",
    "pve-ipv6-config": "ipv6 network configuration",
    "ipv4": "IP address",
    "ipv6": "IP address",
    "address": "IP address",
}


def is_address(fmt, text):
    """Whether a text is an address, with its mask where the format wants one."""
    if text in {"pve-ipv4-config": ("dhcp",), "pve-ipv6-config": ("dhcp", "auto")}.get(fmt, ()):
        return True
    address, slash, mask = text.partition("/")
    version = 4 if "ipv4" in fmt else 6 if "ipv6" in fmt else None
    if fmt.endswith("-config"):
        if not re.fullmatch(r"[0-9]+", mask) or not 8 <= int(mask) <= (32 if version == 4 else 128):
            return False
    elif slash:
        return False
    try:
        return ipaddress.ip_address(address).version in (version or 4, version or 6) and "%" not in address
    except ValueError:
        return False


# Options a guest takes over while it runs; everything else waits for the next start.
LIVE = {
    "description",
    "hookscript",
    "lock",
    "migrate_downtime",
    "migrate_speed",
    "name",
    "onboot",
    "protection",
    "shares",
    "startup",
    "tags",
    "vmstatestorage",
    "citype",
    "ciuser",
    "cipassword",
    "ciupgrade",
    "cicustom",
    "searchdomain",
    "nameserver",
    "sshkeys",
    "balloon",
}
LIVE_RE = re.compile(r"ipconfig\d+|net\d+|(?:scsi|virtio|sata)\d+|usb\d+|unused\d+")

PRIV_OF = {}
for _priv, _keys in {
    "VM.Config.CPU": "cores cpu cpulimit cpuunits numa smp sockets vcpus",
    "VM.Config.Memory": "memory balloon shares allow-ksm",
    "VM.Config.HWType": "acpi hotplug kvm machine scsihw smbios1 tablet vga watchdog audio0 rng0",
    "VM.Config.Options": "agent autostart bios description keyboard localtime migrate_downtime migrate_speed name onboot"
    " ostype protection reboot startdate startup tdf template tags spice_enhancements",
    "VM.PowerMgmt": "freeze",
    "VM.Config.Disk": "boot bootdisk vmstatestorage",
    "VM.Config.Cloudinit": "cicustom cipassword citype ciuser ciupgrade nameserver searchdomain sshkeys",
}.items():
    for _k in _keys.split():
        PRIV_OF[_k] = _priv


class Fail(Exception):
    """An answer other than 200; ``message`` becomes the reason phrase as well."""

    def __init__(self, message, status=500, errors=None):
        super().__init__(message)
        self.message, self.status, self.errors = message, status, errors


def bad_params(errors):
    return Fail("Parameter verification failed.\n", 400, errors)


def split_list(text):
    return [x for x in re.split(r"[,;\s\0]+", text) if x]


def natural(key):
    m = re.match(r"([a-z_-]+?)(\d*)$", key)
    return (m.group(1), int(m.group(2) or 0)) if m else (key, 0)


def read_parameter(short):
    """A parameter of the table as JSON schema has it in PVE's dialect."""
    if isinstance(short, str):
        short = {"type": short} if short in ("boolean", "integer", "number", "array") else {"format": short}
    if "same_as" in short:
        return {"alias": short["same_as"]}
    words = {"from": "minimum", "to": "maximum", "longest": "maxLength", "like": "pattern", "with": "requires"}
    full = {words[key]: value for key, value in short.items() if key in words}
    full["type"] = short.get("type", "string")
    if short.get("format", "text") != "text":
        full["format"] = short["format"]
    if not short.get("required"):
        full["optional"] = 1
    if short.get("first"):
        full["default_key"] = 1
    if "one_of" in short:
        full["enum"] = [name for value in short["one_of"] for name in numbered(value)]
    if "each" in short:
        full["items"] = {key: value for key, value in read_parameter(short["each"]).items() if key != "optional"}
    if "parts" in short:
        full["format"] = read_parts(short["parts"])
    return full


def numbered(value):
    """The names that ``scsi0..30`` stands for; any other value is itself."""
    m = re.fullmatch(r"([a-z]+)(\d+)\.\.(\d+)", str(value))
    return [f"{m.group(1)}{n}" for n in range(int(m.group(2)), int(m.group(3)) + 1)] if m else [str(value)]


def read_parts(parts):
    full = {}
    for key, short in parts.items():
        if "value_of" in short:
            full.update({name: {"keyAlias": short["value_of"], "alias": short["same_as"]} for name in short["names"]})
        else:
            full[key] = read_parameter(short)
    return full


def read_rule(may):
    """Who may call a method, as PVE writes it."""
    if "every" in may:
        return ["and", *map(read_rule, may["every"])]
    if "either" in may:
        return ["or", *map(read_rule, may["either"])]
    rule = ["perm", may["on"], may.get("all_of") or may["any_of"]]
    return rule + (["any", 1] if "any_of" in may else []) + (["require_param", may["with"]] if "with" in may else [])


def read_table(path):
    """The table in the form of PVE's own: path -> method -> parameters, permissions."""
    table = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    paths = {}
    for line, short in table["methods"].items():
        method, _space, template = line.partition(" ")
        may = short["may"]
        everybody = {"everyone": {"user": "all"}, "anyone": {"user": "world"}}
        properties = {key: read_parameter(value) for key, value in short.get("takes", {}).items()}
        for name in re.findall(r"\{([^}]+)\}", template):
            properties[name] = {k: v for k, v in read_parameter(table["in_path"][name]).items() if k != "optional"}
        paths.setdefault(template, {})[method] = {
            "allowtoken": int(short.get("token", True)),
            "permissions": everybody[may] if isinstance(may, str) else {"check": read_rule(may)},
            "parameters": {"additionalProperties": 0, "properties": properties},
        }
    return paths, table["cpu_models"]


class Schema:
    """Parameter checks of one API release."""

    def __init__(self, paths, cpu_models):
        self.paths = paths
        self.cpu_models = set(cpu_models)
        self.routes = []
        for path in self.paths:
            names = re.findall(r"\{([^}]+)\}", path)
            pattern = "".join(
                "([^/]+)" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{[^}]+\})", path)
            )
            self.routes.append((len(names), -len(path), re.compile(pattern + r"\Z"), names, path))
        self.routes.sort(key=lambda r: r[:2])

    def find(self, path):
        for _count, _length, rx, names, template in self.routes:
            m = rx.match(path)
            if m:
                return template, {n: urllib.parse.unquote(v) for n, v in zip(names, m.groups(), strict=False)}
        return None, {}

    @staticmethod
    def _lookup(props, key):
        if key in props:
            return props[key]
        m = re.match(r"([a-z_-]+?)(0|[1-9]\d*)\Z", key)
        return props.get(m.group(1) + "[n]") if m and int(m.group(2)) < SLOTS.get(m.group(1), 256) else None

    def normalize(self, info, params):
        """Lists and single values as the schema wants them."""
        props = info.get("parameters", {}).get("properties", {}) or {}
        out = {}
        for key, value in params.items():
            sub = self._lookup(props, key) or {}
            if sub.get("type") == "array" and not isinstance(value, list):
                value = [value]
            elif (
                isinstance(value, list) and sub.get("type") == "string" and str(sub.get("format", "")).endswith("-list")
            ):
                value = ",".join(map(str, value))
            elif isinstance(value, list) and sub.get("type") != "array":
                value = "\0".join(map(str, value))
            out[key] = value
        return out

    def validate(self, info, params):
        """Return {parameter: message}; empty means accepted."""
        schema = info.get("parameters", {})
        props = schema.get("properties", {}) or {}
        errors = {}
        for key, sub in props.items():
            if not key.endswith("[n]") and key not in params and not sub.get("optional"):
                errors[key] = "property is missing and it is not optional"
        for key, value in params.items():
            sub = self._lookup(props, key)
            if sub is None:
                if schema.get("additionalProperties", 1) in (0, False):
                    errors[key] = (
                        "property is not defined in schema and the schema does not allow additional properties"
                    )
                continue
            if sub.get("requires") and sub["requires"] not in params:
                errors[sub["requires"]] = f"missing property required by '{key}'"
            self.check(value, sub, key, errors)
        return errors

    def check(self, value, sub, path, errors, in_string=False):
        kind = sub.get("type", "string")
        if kind == "array":
            if not isinstance(value, list):
                errors[path] = "type check ('array') failed"
            else:
                for i, item in enumerate(value):
                    self.check(item, sub.get("items", {}), "%s[%d]" % (path, i), errors)
            return
        if isinstance(value, (list, dict)):
            errors[path] = "type check ('{}') failed - got {}".format(
                kind, "ARRAY" if isinstance(value, list) else "HASH"
            )
            return
        if isinstance(value, bool):
            value = "1" if value else "0"
        text = str(value)
        if kind == "boolean":
            ok = text.lower() in TRUE_WORDS | FALSE_WORDS if in_string else text in ("0", "1")
            if not ok:
                errors[path] = f"type check ('boolean') failed - got '{text}'"
            return
        if (kind == "integer" and not re.fullmatch(r"[+-]?\d+", text)) or (
            kind == "number" and not re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", text)
        ):
            errors[path] = f"type check ('{kind}') failed - got '{text}'"
            return
        fmt = sub.get("format")
        if fmt:
            problem = self.check_format(fmt, text, sub, path)
            if problem:
                errors[path] = "invalid format - " + problem + "\n"
                return
        if sub.get("pattern") and not re.fullmatch(sub["pattern"], text, re.ASCII):
            errors[path] = "value does not match the regex pattern"
            return
        if sub.get("maxLength") is not None and len(text) > int(sub["maxLength"]):
            errors[path] = "value may only be {} characters long".format(sub["maxLength"])
            return
        if sub.get("minLength") is not None and len(text) < int(sub["minLength"]):
            errors[path] = "value must be at least {} characters long".format(sub["minLength"])
            return
        if kind in ("integer", "number"):
            number = float(text)
            for bound, word, wrong in (
                ("maximum", "maximum", lambda a, b: a > b),
                ("minimum", "minimum", lambda a, b: a < b),
            ):
                if sub.get(bound) is not None and wrong(number, float(sub[bound])):
                    errors[path] = f"value must have a {word} value of {sub[bound]}"
                    return
        if sub.get("enum") and text not in map(str, sub["enum"]):
            errors[path] = "value '{}' does not have a value in the enumeration '{}'".format(
                text, ", ".join(map(str, sub["enum"]))
            )

    def check_format(self, fmt, text, sub, path):
        if isinstance(fmt, dict):
            return self.check_string(fmt, text, path)[1]
        if fmt in NAMED:
            data, problem = self.check_string(NAMED[fmt], text, path)
            if not problem and fmt == "pve-vm-cpu-conf" and self.cpu_models:
                model = data.get("cputype")
                if model and model.startswith("custom-"):
                    return f"Custom cputype '{model[7:]}' not found"
                bits = data.get("phys-bits", "host")
                if bits != "host" and not 8 <= int(bits) <= 64:
                    return f"format error\n{path}.phys-bits: invalid format - value must be an integer between 8 and 64 or 'host'\n"
                if model and model not in self.cpu_models:
                    return f"Built-in cputype '{model}' is not defined (missing 'custom-' prefix?)"
            return problem
        if fmt in ADDRESSES:
            return None if is_address(fmt, text) else f"value does not look like a valid {ADDRESSES[fmt]}"
        if fmt in TEXT_FORMATS:
            rx, message = TEXT_FORMATS[fmt]
            if not re.fullmatch(rx, text) or (
                fmt == "pve-cpuset" and any(int(a) > int(b) for a, b in re.findall(r"(\d+)-(\d+)", text))
            ):
                return message % text if "%s" in message else message
            return None
        if fmt == "pve-hotplug-features" and text not in ("0", "1"):
            wrong = [x for x in split_list(text) if x not in ("network", "disk", "cpu", "memory", "usb", "cloudinit")]
            return f"invalid hotplug feature '{wrong[0]}'" if wrong else None
        if fmt.endswith("-list"):
            for item in split_list(text):
                problem = self.check_format(fmt[:-5], item, sub, path)
                if problem:
                    return problem
        return None

    def check_string(self, fmt, text, path="", strict=True):
        """Parse ``a=1,b=2`` with its schema; return (dict, problem or None)."""
        data, errors = {}, {}
        default = next((k for k, v in fmt.items() if v.get("default_key")), None)
        for part in text.split(","):
            if part == "":
                continue
            if "=" in part:
                key, value = part.split("=", 1)
            elif default and default not in data:
                key, value = default, part
            else:
                return data, "value without key, but schema does not define a default key"
            sub = fmt.get(key)
            if sub is None:
                errors[path + "." + key] = (
                    "property is not defined in schema and the schema does not allow additional properties"
                )
                continue
            if sub.get("keyAlias"):
                if sub["keyAlias"] in data:
                    return data, f"key alias '{key}' is already defined\n"
                data[sub["keyAlias"]] = key
            if sub.get("alias"):
                key = sub["alias"]
                sub = fmt.get(key, sub)
            if key in data:
                return data, f"duplicate key in comma-separated list property: {key}"
            data[key] = value
        for key, sub in fmt.items():
            if sub.get("alias"):
                continue
            if key in data:
                self.check(data[key], sub, path + "." + key, errors, in_string=True)
                if isinstance(sub.get("requires"), str) and sub["requires"] not in data:
                    errors[path + "." + sub["requires"]] = f"missing property required by '{path}.{key}'"
            elif not sub.get("optional"):
                errors[path + "." + key] = "property is missing and it is not optional"
        if errors:
            return data, "format error\n" + "\n".join("{}: {}".format(*kv) for kv in sorted(errors.items()))
        return data, None

    def coerce(self, info, params):
        props = info.get("parameters", {}).get("properties", {}) or {}
        out = {}
        for key, value in params.items():
            kind = (self._lookup(props, key) or {}).get("type", "string")
            if kind == "boolean":
                value = 1 if value in (1, "1", True) else 0
            elif kind == "integer":
                value = int(value)
            elif kind == "number":
                value = float(value)
                value = int(value) if value == int(value) else value
            elif kind == "string":
                value = str(value)
            out[key] = value
        return out


@functools.cache
def schema():
    """The checks of the table, which take longer to read than most tests."""
    return Schema(*read_table(TABLE))


DEFAULT_SEED = {
    "version": {"version": "9.1.9", "release": "9.1", "repoid": "simulated"},
    "settings": {"task_delay": 0.2, "resources_lag": 0, "strict_mapping": False, "tag_case_sensitive": False},
    "users": {"root@pam": {"password": "secret"}},
    "tokens": {"auto@pve!knaster": {"secret": "11111111-2222-3333-4444-555555555555"}},
    "acl": [{"who": "auto@pve!knaster", "path": "/", "privs": ["*"]}],
    "nodes": {
        "pve1": {"status": "online", "cpus": 16, "memory_gb": 64, "ip": "10.0.0.11", "bridges": ["vmbr0"], "pci": []}
    },
    "storages": {
        "local": {
            "type": "dir",
            "content": ["iso", "vztmpl", "backup", "snippets", "import"],
            "path": "/var/lib/vz",
            "total_gb": 100,
            "used_gb": 10,
            "volumes": {},
        },
        "local-lvm": {
            "type": "lvmthin",
            "content": ["images", "rootdir"],
            "total_gb": 500,
            "used_gb": 0,
            "volumes": {},
        },
    },
    "mapping": {"pci": {}},
    "guests": {},
    "pools": {},
    "ha": {"resources": {}, "rules": {}},
    "backup": {},
    "replication": {},
    "tasks": {},
}


def merge(base, extra):
    for key, value in extra.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            merge(base[key], value)
        else:
            base[key] = copy.deepcopy(value)
    return base


HANDLERS = {}


def on(method, path):
    def add(fn):
        HANDLERS[(method, path)] = fn
        return fn

    return add


class Call:
    """One request on its way through the simulator."""

    def __init__(self, user, task_fault=None):
        self.user, self.task_fault, self.upid = user, task_fault, None


class PveSim:
    def __init__(self, seed=None, state_file=None, log_file=None, faults=None):
        self.schema = schema()
        self.state_file, self.log_file = state_file, log_file
        self.lock = threading.RLock()
        self.faults = list(faults or json.loads(os.environ.get("PVE_SIM_FAULTS") or "[]"))
        self.calls, self.tickets, self.pid = [], {}, 4096
        self.state = merge(copy.deepcopy(DEFAULT_SEED), {})
        if seed:
            for key in ("nodes", "storages", "tokens", "acl"):  # a seed replaces these whole
                if key in seed:
                    self.state[key] = {} if isinstance(seed[key], dict) else []
            merge(self.state, seed)
        if state_file and os.path.exists(state_file):
            self.state = json.loads(Path(state_file).read_text(encoding="utf-8"))
        if os.environ.get("PVE_SIM_TASK_DELAY"):
            self.state["settings"]["task_delay"] = float(os.environ["PVE_SIM_TASK_DELAY"])
        self.server = None
        # How many seconds the cluster's clock is ahead, so that a test need not wait for a task.
        self.ahead = 0.0

    def now(self):
        return time.time() + self.ahead

    # ---- life cycle -------------------------------------------------------------------------
    def start(self, host="127.0.0.1", port=0, cert=None, key=None, cert_dir=None, tls=True):
        sim = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            server_version = "pve-api-daemon/3.0"
            disable_nagle_algorithm = True  # or each answer waits for the other side's delayed acknowledgement

            def handle_any(self):
                sim.serve(self)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                if not isinstance(sys.exc_info()[1], (ssl.SSLError, ConnectionError, OSError)):
                    super().handle_error(request, client_address)

        self.server = Server((host, port), Handler)
        if tls:
            if not cert:
                cert_dir = cert_dir or tempfile.mkdtemp(prefix="pve_sim_")
                os.makedirs(cert_dir, exist_ok=True)
                cert, key = os.path.join(cert_dir, "cert.pem"), os.path.join(cert_dir, "key.pem")
                if not os.path.exists(cert):
                    subprocess.run(
                        [
                            "openssl",
                            "req",
                            "-x509",
                            "-newkey",
                            "rsa:2048",
                            "-nodes",
                            "-days",
                            "30",
                            "-subj",
                            "/CN=pve-sim",
                            "-addext",
                            "subjectAltName=DNS:localhost,IP:127.0.0.1",
                            "-keyout",
                            key,
                            "-out",
                            cert,
                        ],
                        check=True,
                        stderr=subprocess.DEVNULL,
                    )
            ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            ctx.load_cert_chain(cert, key)
            self.server.socket = ctx.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
            self.ca_file = cert
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return "%s://%s:%d" % ("https" if tls else "http", host, self.server.server_address[1])

    def stop(self):
        if self.server:
            self.server.shutdown()
            self.server.server_close()

    # ---- request path -----------------------------------------------------------------------
    def serve(self, h):
        url = urllib.parse.urlsplit(h.path)
        length = int(h.headers.get("Content-Length") or 0)
        body = h.rfile.read(length) if length else b""
        if url.path.startswith("/_sim/"):
            return self.control(h, h.command, url.path[6:], body)
        m = re.match(r"/api2/(json|extjs)(/.*)?\Z", url.path)
        if not m:
            return self.answer(h, 404, {"data": None}, "no such path")
        path = (m.group(2) or "/").rstrip("/") or "/"
        started, params, user, call = time.time(), {}, None, Call(None)
        status, message, payload = 200, "OK", {"data": None}
        fault = self.take_fault(h.command + " " + path)
        if fault and fault["kind"] == "drop":
            self.record(h.command, path, params, user, 0, "connection dropped", started, None)
            h.close_connection = True
            h.connection.close()
            return None
        if fault and fault["kind"] == "delay":
            time.sleep(float(fault.get("seconds", 1)))
        try:
            params = self.read_params(h, url.query, body)
            if fault and fault["kind"] == "http":
                raise Fail(fault.get("message", "injected"), int(fault.get("status", 500)), fault.get("errors"))
            if fault and fault["kind"] == "lock":
                vmid = (re.search(r"/qemu/(\d+)", path) or [None, "0"])[1]
                msg = f"can't lock file '/var/lock/qemu-server/lock-{vmid}.conf' - got timeout\n"
                raise Fail(msg)
            if fault and fault["kind"] == "auth":
                raise Fail("Authentication failed!\n", 401)
            with self.lock:
                self.sweep()
                user = self.authenticate(h, path)
                call = Call(user, fault if fault and fault["kind"].startswith("task_") else None)
                payload = {"data": self.dispatch(h.command, path, params, call)}
                if h.command != "GET":
                    self.save()
        except Fail as e:
            status, message = e.status, e.message.splitlines()[0] if e.message else "error"
            payload = {"data": None, "message": e.message}
            if e.errors:
                payload["errors"] = e.errors
        except Exception as e:  # a defect of the simulator must not look like PVE's answer
            status, message, payload = 599, "pve_sim defect: {}".format(str(e).replace("\n", " ")), {"data": None}
            import traceback

            traceback.print_exc()
        if h.command != "GET":
            self.record(h.command, path, params, user, status, message, started, call.upid)
        if m.group(1) == "extjs":
            payload["success"] = 1 if status == 200 else 0
            if status != 200:
                payload["status"], status = status, 200
        if fault and fault["kind"] == "garbage":
            return self.answer(h, 200, None, "OK", raw=b"<html>proxy error</html>")
        return self.answer(h, status, payload, message)

    def answer(self, h, status, payload, message, raw=None):
        data = raw if raw is not None else json.dumps(payload).encode()
        h.send_response(status, re.sub(r"[^\x20-\x7e]", "?", message))
        h.send_header("Content-Type", "application/json;charset=UTF-8")
        h.send_header("Content-Length", str(len(data)))
        if status >= 400:
            h.send_header("Connection", "close")
            h.close_connection = True
        h.end_headers()
        h.wfile.write(data)

    @staticmethod
    def read_params(h, query, body):
        pairs = urllib.parse.parse_qsl(query, keep_blank_values=True)
        if body:
            kind = (h.headers.get("Content-Type") or "").split(";")[0].strip()
            if kind == "application/json":
                data = json.loads(body)
                if not isinstance(data, dict):
                    raise Fail("parameters must be an object", 400)
                return {**dict(pairs), **{k: v for k, v in data.items() if v is not None}}
            if kind not in ("application/x-www-form-urlencoded", ""):
                msg = f"upload 'Content-Type '{kind}' not implemented"
                raise Fail(msg, 501)
            pairs += urllib.parse.parse_qsl(body.decode(), keep_blank_values=True)
        out = {}
        for key, value in pairs:
            out[key] = value if key not in out else (out[key] if isinstance(out[key], list) else [out[key]]) + [value]
        return out

    def authenticate(self, h, path):
        if (path == "/access/ticket" and h.command in ("GET", "POST")) or (
            path == "/access/domains" and h.command == "GET"
        ):
            return None
        header = h.headers.get("Authorization") or ""
        if header.startswith("PVEAPIToken="):
            token, _equals, secret = header[len("PVEAPIToken=") :].rpartition("=")
            known = self.state["tokens"].get(token)
            if not known or not secrets.compare_digest(known["secret"], secret):
                raise Fail("Authentication failed!\n", 401)
            return token
        cookie = re.search(r"PVEAuthCookie=([^;]+)", h.headers.get("Cookie") or "")
        ticket = self.tickets.get(urllib.parse.unquote(cookie.group(1))) if cookie else None
        if not ticket:
            raise Fail("No ticket\n", 401)
        if h.command != "GET" and h.headers.get("CSRFPreventionToken") != ticket["csrf"]:
            raise Fail("Permission denied - invalid csrf token\n", 401)
        return ticket["user"]

    def privileges(self, user, path):
        """Privileges of a user on an object path: the entry nearest to the object wins."""
        if user == "root@pam":
            return {"*"}
        best = None
        for entry in self.state["acl"]:
            if entry["who"] != user:
                continue
            p = entry["path"].rstrip("/")
            exact = path.rstrip("/") == p
            if exact or (entry.get("propagate", 1) and (path + "/").startswith(p + "/")):
                if best is None or len(p) > len(best[0]):
                    best = (p, set(entry["privs"]))
                elif len(p) == len(best[0]):
                    best[1].update(entry["privs"])
        found = set(best[1]) if best else set()
        if path.startswith("/vms/"):
            # A guest has what is given on its pool, too.
            for name, pool in self.state["pools"].items():
                if path[5:] in map(str, pool.get("members", [])):
                    found |= self.privileges(user, "/pool/" + name)
        return found

    def allowed(self, user, path, privs, any_of=False):
        have = self.privileges(user, path)
        if "*" in have:
            return True
        hits = [p in have for p in privs]
        return any(hits) if any_of else all(hits)

    def need(self, user, path, *privs, any_of=False):
        if not self.allowed(user, path, privs, any_of):
            msg = "Permission check failed ({}, {})\n".format(path, "|".join(privs))
            raise Fail(msg, 403)

    def need_vm(self, user, vmid, pool, *privs, any_of=False):
        if pool and self.allowed(user, "/pool/" + pool, privs, any_of):
            return
        self.need(user, f"/vms/{vmid}", *privs, any_of=any_of)

    def rule(self, rule, user, params):
        """Evaluate a permission expression."""
        op = rule[0]
        if op == "perm":
            path = re.sub(r"\{([^}]+)\}", lambda m: str(params.get(m.group(1), "")), rule[1])
            options = dict(zip(rule[3::2], rule[4::2], strict=False))
            if not self.allowed(user, path, rule[2], bool(options.get("any"))):
                msg = "Permission check failed ({}, {})\n".format(path, "|".join(rule[2]))
                raise Fail(msg, 403)
        elif op == "and":
            for sub in rule[1:]:
                self.rule(sub, user, params)
        elif op == "or":
            last = None
            for sub in rule[1:]:
                try:
                    return self.rule(sub, user, params)
                except Fail as e:
                    last = e
            if last:
                raise last
        return None

    def dispatch(self, method, path, params, call):
        template, uri = self.schema.find(path)
        info = (self.schema.paths.get(template) or {}).get(method)
        if not info:
            msg = f"Method '{method} {path}' not implemented"
            raise Fail(msg, 501)
        if call.user and "!" in call.user and not info.get("allowtoken"):
            msg = f"Permission check failed (URI '{path}' not available with API token, need proper ticket.\n)"
            raise Fail(msg, 403)
        for key, value in uri.items():
            if key in params and str(params[key]) != value:
                raise bad_params({key: "duplicate parameter (already defined in URI) with conflicting values!"})
        params = {**params, **uri}
        check = (info.get("permissions") or {}).get("check")
        if check and call.user != "root@pam":
            self.rule(check, call.user, params)
        if not info.get("permissions") and call.user != "root@pam":
            raise Fail("Permission check failed (user != root@pam)\n", 403)
        if "node" in uri and uri["node"] not in self.state["nodes"]:
            msg = (
                "hostname lookup '{}' failed - failed to get address info for: {}: Name or service not known\n".format(
                    uri["node"], uri["node"]
                )
            )
            raise Fail(msg)
        if "node" in uri and self.state["nodes"][uri["node"]].get("status") != "online":
            raise Fail("No route to host", 595)
        params = self.schema.normalize(info, params)
        errors = self.schema.validate(info, params)
        if errors:
            raise bad_params(errors)
        handler = HANDLERS[(method, template)]
        return handler(self, call, self.schema.coerce(info, params))

    # ---- bookkeeping ------------------------------------------------------------------------
    def take_fault(self, line):
        with self.lock:
            for fault in self.faults:
                left = fault.setdefault("times", 1)
                if left and re.search(fault["match"], line):
                    if left > 0:
                        fault["times"] = left - 1
                    return fault
        return None

    def record(self, method, path, params, user, status, message, started, upid):
        shown = {k: "<hidden>" if k in ("password", "cipassword") else v for k, v in params.items()}
        entry = {
            "n": len(self.calls) + 1,
            "time": round(started, 3),
            "method": method,
            "path": path,
            "params": shown,
            "user": user,
            "status": status,
            "message": message,
            "upid": upid,
        }
        self.calls.append(entry)
        if self.log_file:
            with open(self.log_file, "a", encoding="utf-8") as f:
                f.write(json.dumps(entry, sort_keys=True) + "\n")

    def save(self):
        if self.state_file:
            tmp = self.state_file + ".tmp"
            with open(tmp, "w", encoding="utf-8") as f:
                json.dump(self.state, f, indent=1, sort_keys=True)
            os.replace(tmp, self.state_file)

    def control(self, h, method, what, body):
        data = json.loads(body) if body else None
        with self.lock:
            if method == "GET" and what == "state":
                self.sweep()
                out = self.state
            elif method == "GET" and what == "calls":
                out = self.calls
            elif method == "POST" and what == "faults":
                self.faults, out = data or [], None
            elif method == "POST" and what == "patch":
                merge(self.state, data or {})
                out = None
            elif method == "POST" and what == "settle":
                self.sweep(now=float("inf"))
                out = None
            else:
                return self.answer(h, 404, {"data": None}, "no such control")
            return self.answer(h, 200, {"data": out}, "OK")

    # ---- tasks ------------------------------------------------------------------------------
    def task(self, call, node, kind, ident, effect, /, **args):
        """Start a task; ``effect`` names the method that runs when it ends."""
        self.pid += 1
        now = self.now()
        upid = f"UPID:{node}:{self.pid:08X}:{self.pid * 7:08X}:{int(now):08X}:{kind}:{ident}:{call.user}:"
        delay, fail = float(args.pop("delay", self.state["settings"]["task_delay"])), None
        fault = call.task_fault
        if fault:
            delay = {"task_slow": float(fault.get("seconds", 30)), "task_hang": 10**9}.get(fault["kind"], delay)
            fail = fault.get("message", "injected failure") if fault["kind"] == "task_fail" else None
        self.state["tasks"][upid] = {
            "node": node,
            "type": kind,
            "id": str(ident),
            "user": call.user,
            "start": now,
            "due": now + delay,
            "effect": effect,
            "args": args,
            "fail": fail,
            "status": "running",
            "log": [f"starting {kind} for {ident}"],
        }
        call.upid = upid
        return upid

    def sweep(self, now=None):
        now = self.now() if now is None else now
        for _upid, t in sorted(self.state["tasks"].items(), key=lambda kv: kv[1]["due"]):
            if t["status"] != "running" or t["due"] > now:
                continue
            t["status"], t["end"] = "stopped", min(now, t["due"])
            try:
                if t["fail"]:
                    raise Fail(t["fail"])
                getattr(self, "end_" + t["effect"])(**t["args"])
                t["exit"] = "OK"
                t["log"].append("TASK OK")
            except Fail as e:
                t["exit"] = e.message.strip()
                t["log"].append("TASK ERROR: " + t["exit"])
                undo = getattr(self, "undo_" + t["effect"], None)
                if undo:
                    undo(**t["args"])

    # ---- guests -----------------------------------------------------------------------------
    def guest(self, node, vmid, lock_check=True):
        g = self.state["guests"].get(str(vmid))
        if not g or g["node"] != node:
            msg = f"Configuration file 'nodes/{node}/qemu-server/{vmid}.conf' does not exist\n"
            raise Fail(msg)
        if lock_check and g["config"].get("lock"):
            msg = "VM is locked ({})\n".format(g["config"]["lock"])
            raise Fail(msg)
        return g

    @staticmethod
    def digest(config):
        return hashlib.sha1(json.dumps(config, sort_keys=True).encode()).hexdigest()

    def storage(self, name, node, content):
        s = self.state["storages"].get(name)
        if not s:
            msg = f"storage '{name}' does not exist\n"
            raise Fail(msg)
        if s.get("nodes") and node not in s["nodes"]:
            msg = f"storage '{name}' is not available on node '{node}'\n"
            raise Fail(msg)
        if content not in s["content"]:
            msg = f"storage '{name}' does not support content-type '{content}'\n"
            raise Fail(msg)
        return s

    def props(self, template, method, key):
        return Schema._lookup(self.schema.paths[template][method]["parameters"]["properties"], key)

    def parse(self, key, value):
        sub = self.props("/nodes/{node}/qemu", "POST", key) or {}
        fmt = sub.get("format")
        fmt = NAMED.get(fmt, fmt) if isinstance(fmt, str) else fmt
        if not isinstance(fmt, dict):
            return {}
        data = self.schema.check_string(fmt, value, key)[0]
        for name in data:  # PVE stores the booleans of a property string as 1 and 0
            if fmt.get(name, {}).get("type") == "boolean":
                data[name] = "1" if data[name].lower() in TRUE_WORDS else "0"
        return data

    def check_rights(self, call, node, vmid, pool, params, old=None):
        """Per-option privileges, as a guest's creation and change ask for them."""
        user = call.user
        if user == "root@pam":
            return
        for key in sorted(params):
            if key.startswith("hostpci"):
                for value in filter(None, [(old or {}).get(key), params[key]]):
                    dev = self.parse(key, value)
                    if dev.get("host"):
                        msg = f"only root can set '{key}' config for non-mapped devices\n"
                        raise Fail(msg)
                    if not dev.get("mapping"):
                        raise Fail("either 'host' or 'mapping' must be set.\n")
                    self.need(user, "/mapping/pci/" + dev["mapping"], "Mapping.Use")
                    self.need_vm(user, vmid, pool, "VM.Config.HWType")
                    if "romfile" in dev:
                        raise bad_params({key: "only root@pam can set 'romfile' option"})
            elif DRIVE_KEY.fullmatch(key):
                self.drive_rights(call, vmid, pool, key, params[key], old is None)
            elif re.fullmatch(r"(?:serial|usb|unused|virtiofs)\d+", key):
                kept = (old or {}).get(key, "")
                if key.startswith("serial") and any(value not in ("socket", "") for value in (params[key], kept)):
                    msg = f"only root can set '{key}' config for real devices\n"
                    raise Fail(msg)
                shared = self.parse(key, params[key]) if params[key] and key[:3] in ("usb", "vir") else {}
                if key[:3] == "usb" and shared.get("host") and shared["host"].lower() != "spice":
                    msg = f"only root can set '{key}' config for real devices\n"
                    raise Fail(msg)
                if shared.get("mapping"):
                    self.need(user, "/mapping/usb/" + shared["mapping"], "Mapping.Use")
                if shared.get("dirid"):
                    self.need(user, "/mapping/dir/" + shared["dirid"], "Mapping.Use")
                self.need_vm(
                    user, vmid, pool, "VM.Config.Disk" if key[0] in "uv" and key[:3] != "usb" else "VM.Config.HWType"
                )
            elif re.fullmatch(r"net\d+", key):
                self.need_vm(user, vmid, pool, "VM.Config.Network")
                bridge = self.parse(key, params[key]).get("bridge") if params[key] else None
                if bridge:
                    self.need(user, "/sdn/zones/localnetwork/" + bridge, "SDN.Use")
            elif re.fullmatch(r"numa\d+", key):
                self.need_vm(user, vmid, pool, "VM.Config.CPU")
            elif re.fullmatch(r"ipconfig\d+", key) or PRIV_OF.get(key) == "VM.Config.Cloudinit":
                self.need_vm(user, vmid, pool, "VM.Config.Cloudinit", "VM.Config.Network", any_of=True)
            elif key in PRIV_OF:
                self.need_vm(user, vmid, pool, PRIV_OF[key])
                if key == "startup":
                    self.need(user, "/", "Sys.Modify")
            else:
                msg = f"only root can set '{key}' config\n"
                raise Fail(msg)

    def drive_rights(self, call, vmid, pool, key, value, create):
        d = self.parse(key, value) if value else {}
        name = d.get("file") or d.get("volume") or ""
        store = name.split(":")[0] if ":" in name else None
        if name.startswith("/"):
            raise Fail("Only root can pass arbitrary filesystem paths.\n")
        if create:  # creation asks for space on the storage only
            pass
        elif name.endswith(":cloudinit"):
            self.need_vm(call.user, vmid, pool, "VM.Config.Cloudinit", "VM.Config.CDROM")
        elif d.get("media") == "cdrom" or name in ("none", "cdrom"):
            self.need_vm(call.user, vmid, pool, "VM.Config.CDROM")
        else:
            self.need_vm(call.user, vmid, pool, "VM.Config.Disk")
        if store:
            self.need(call.user, "/storage/" + store, "Datastore.AllocateSpace")

    def plan_drive(self, node, vmid, key, value, config):
        """Check a drive and return (new value, volume to create or None)."""
        d = self.parse(key, value)
        name = d.pop("file", None) or d.pop("volume", None)
        if name in ("none", "cdrom", None):
            return value, None
        store, _colon, vol = name.partition(":")
        if not vol:
            msg = f"unable to parse volume ID '{name}'\n"
            raise Fail(msg)
        content = "iso" if vol.startswith("iso/") else "images"
        s = self.storage(store, node, content)
        make, size = None, None
        if vol == "cloudinit":
            if any("cloudinit" in str(v) for k, v in config.items() if DRIVE_KEY.fullmatch(k) and k != key):
                raise Fail("cloud-init drive is already attached\n")
            vol, make, d["media"] = f"vm-{vmid}-cloudinit", 0.004, "cdrom"
        elif re.fullmatch(r"\d+(?:\.\d+)?", vol):
            gib = float(vol)
            source = d.pop("import-from", None)
            if source:
                if gib:
                    raise bad_params(
                        {key: "'import-from' requires special syntax - use <storage ID>:0,import-from=<source>"}
                    )
                gib = float(self.source_size(node, source))
            if gib <= 0:
                msg = f"{key}: disk size must be above zero\n"
                raise Fail(msg)
            if key in ("efidisk0", "tpmstate0"):
                gib = 4 / 1024
            used = [int(n) for v in s["volumes"] for n in re.findall(rf"vm-{vmid}-disk-(\d+)", v)]
            used += [
                int(n)
                for v in config.values()
                for n in re.findall(re.escape(store) + rf":vm-{vmid}-disk-(\d+)", str(v))
            ]
            vol, make = "vm-%s-disk-%d" % (vmid, max(used, default=-1) + 1), gib
            size = (
                "4M"
                if key in ("efidisk0", "tpmstate0")
                else ("%dG" % gib if gib == int(gib) else "%dM" % round(gib * 1024))
            )
        elif content == "images" and vol not in s["volumes"]:
            msg = f"volume '{name}' does not exist\n"
            raise Fail(msg)
        else:
            size = d.get("size")
        d.pop("format", None)
        if make is not None and key == "efidisk0" and d.get("pre-enrolled-keys") == "1":
            d.setdefault("ms-cert", "2023k")
        if size:
            d["size"] = size
        text = ",".join([f"{store}:{vol}"] + ["{}={}".format(*kv) for kv in sorted(d.items())])
        return text, (store, vol, make) if make is not None else None

    def source_size(self, node, source):
        store, _colon, vol = source.partition(":")
        size = self.storage(store, node, "import" if vol.startswith("import/") else "images")["volumes"].get(vol)
        if size is None:
            msg = f"volume '{source}' does not exist\n"
            raise Fail(msg)
        return size

    def plan_value(self, node, vmid, key, value, config):
        if DRIVE_KEY.fullmatch(key):
            return self.plan_drive(node, vmid, key, value, config)
        if re.fullmatch(r"net\d+", key):
            d = self.parse(key, value)
            mac = d.pop("macaddr", None) or "BC:24:11:{:02X}:{:02X}:{:02X}".format(*tuple(secrets.token_bytes(3)))
            return ",".join(
                ["{}={}".format(d.pop("model"), mac.upper())] + ["{}={}".format(*kv) for kv in sorted(d.items())]
            ), None
        if key == "tags":
            cased = self.state["settings"]["tag_case_sensitive"]
            tags = {t if cased else t.lower() for t in split_list(value)}
            return ";".join(sorted(tags, key=str.lower)), None
        if key == "vmgenid" and value == "1":
            return str(uuid.uuid4()), None
        if key == "description":
            return re.sub(r"\s+\Z", "", value), None
        if key == "sshkeys":
            for line in urllib.parse.unquote(value).splitlines():
                if line.strip() and not re.match(r"\s*(?:(?:\S+ )?(?:ssh-|ecdsa-|sk-)\S+ [A-Za-z0-9+/]+=*)", line):
                    raise Fail("SSH public key validation error\n")
        if key == "cipassword" and not re.match(r"\$(?:[156]|2[ay])\$", value):
            return "$5$sim$" + hashlib.sha256(value.encode()).hexdigest()[:43], None
        return value, None

    def check_memory(self, params, config):
        if "memory" in params or "balloon" in params:
            memory = int(str(params.get("memory") or config.get("memory") or 512).rsplit("=", maxsplit=1)[-1])
            balloon = int(params.get("balloon", config.get("balloon") or 0))
            if balloon > memory:
                raise Fail("balloon value too large (must be smaller than assigned memory)\n")

    def check_boot(self, value, config):
        for dev in split_list(self.parse("boot", value).get("order", "")):
            if dev not in config:
                msg = f"invalid bootorder: device '{dev}' does not exist'\n"
                raise Fail(msg)

    def check_strict_mapping(self, params):
        if not self.state["settings"]["strict_mapping"]:
            return
        for key, value in params.items():
            if key.startswith("hostpci"):
                name = self.parse(key, value).get("mapping")
                if name and name not in self.state["mapping"]["pci"]:
                    raise bad_params({key: f"mapping '{name}' does not exist (pve_sim strict_mapping)"})

    def take_volumes(self, volumes):
        for store, vol, gib in volumes:
            s = self.state["storages"][store]
            if s["type"] != "lvmthin" and s.get("used_gb", 0) + gib > s.get("total_gb", 10**6):
                msg = f"no space left on storage '{store}'\n"
                raise Fail(msg)
            s["used_gb"] = round(s.get("used_gb", 0) + gib, 3)
            s["volumes"][vol] = gib

    def drop_volumes(self, vmid):
        for s in self.state["storages"].values():
            for vol in [v for v in s["volumes"] if re.match(rf"(?:vm|base)-{vmid}-", v)]:
                s["used_gb"] = round(s.get("used_gb", 0) - s["volumes"].pop(vol), 3)

    # ---- ends of tasks ----------------------------------------------------------------------
    def end_none(self, **_):
        pass

    def end_create(self, vmid, node, config, volumes, pool, start):
        self.take_volumes(volumes)
        self.state["guests"][vmid] = {
            "node": node,
            "config": config,
            "pending": {},
            "status": "stopped",
            "created": self.now(),
        }
        if pool:
            self.state["pools"][pool].setdefault("members", []).append(int(vmid))
        if start:
            self.end_start(vmid=vmid)

    def undo_create(self, vmid, **_):
        g = self.state["guests"].get(vmid)
        if g and g["config"].get("lock") == "create":
            del self.state["guests"][vmid]

    def end_start(self, vmid):
        g = self.state["guests"].get(vmid)
        if not g:
            raise Fail("Configuration file does not exist\n")
        if g["status"] == "running":
            msg = f"VM {vmid} already running\n"
            raise Fail(msg)
        self.apply_pending(g)
        self.check_numa(g["config"])
        for volume in self.parse("cicustom", g["config"].get("cicustom", "")).values():
            store, _colon, vol = volume.partition(":")
            if vol not in self.storage(store, g["node"], "snippets")["volumes"]:
                msg = f"volume '{volume}' does not exist\n"
                raise Fail(msg)
        g["devices"] = self.pick_devices(vmid, g)
        bridges = self.state["nodes"][g["node"]].get("bridges", [])
        for key, value in g["config"].items():
            bridge = self.parse(key, value).get("bridge") if re.fullmatch(r"net\d+", key) else None
            if bridge and bridge not in bridges:
                msg = f"bridge '{bridge}' does not exist\n"
                raise Fail(msg)
        limit = self.state["nodes"][g["node"]].get("memory_gb")
        if limit:
            used = sum(
                int(str(x["config"].get("memory", 512)))
                for i, x in self.state["guests"].items()
                if x["node"] == g["node"] and (x["status"] == "running" or i == vmid)
            )
            if used > limit * 1024:
                raise Fail("start failed: QEMU exited with code 1\n")
        cores = int(g["config"].get("cores", 1)) * int(g["config"].get("sockets", 1))
        if cores > self.state["nodes"][g["node"]].get("cpus", 10**6):
            msg = "MAX {} vcpus allowed per VM on this node\n".format(self.state["nodes"][g["node"]]["cpus"])
            raise Fail(msg)
        g["status"], g["started"] = "running", self.now()

    def check_numa(self, config):
        """What the memory of a start asks of its NUMA nodes."""
        features = split_list(str(config.get("hotplug", "")))
        numa = str(config.get("numa", 0)) == "1"
        if "memory" in features and not numa:
            raise Fail("NUMA needs to be enabled for memory hotplug\n")
        nodes = {key: self.parse(key, config[key]) for key in config if re.fullmatch(r"numa\d+", key)}
        if not numa or not nodes:
            return
        for key, node in nodes.items():
            if "memory" not in node:
                msg = f"missing NUMA node{key[4:]} memory value\n"
                raise Fail(msg)
            if "hostnodes" in node and "policy" not in node:
                msg = f"you need to define a policy for hostnode {node['hostnodes']}\n"
                raise Fail(msg)
        sockets = int(config.get("sockets", 1))
        memory = int(str(config.get("memory", 512)).rsplit("=", maxsplit=1)[-1])
        static = 1024 * sockets if "memory" in features else memory
        if sum(float(node["memory"]) for node in nodes.values()) != static:
            raise Fail("total memory for NUMA nodes must be equal to vm static memory\n")
        named = []
        for node in nodes.values():
            for part in node["cpus"].split(";"):
                first, _dash, last = part.partition("-")
                named += range(int(first), int(last or first) + 1)
        if sorted(named) != list(range(int(config.get("cores", 1)) * sockets)):
            raise Fail("start failed: QEMU exited with code 1\n")

    def end_ha(self, vmid, wish):
        """The wish is taken note of; the cluster acts on it later."""
        g = self.state["guests"].get(vmid)
        if g:
            self.state["ha"]["resources"]["vm:" + vmid]["state"] = "started" if wish == "start" else "stopped"
            delay = float(self.state["settings"].get("ha_delay", 10))
            self.task(Call("root@pam"), g["node"], "qm" + wish, vmid, wish, delay=delay, vmid=vmid)

    def end_stop(self, vmid):
        g = self.state["guests"].get(vmid)
        if g:
            g["status"], g["devices"] = "stopped", []
            self.apply_pending(g)

    def end_destroy(self, vmid):
        g = self.state["guests"].pop(vmid, None)
        if g:
            self.drop_volumes(vmid)
            for pool in self.state["pools"].values():
                pool["members"] = [x for x in pool.get("members", []) if str(x) != vmid]

    def end_clone(self, vmid, newid, node, name, pool, description):
        src = self.state["guests"][vmid]
        config = {k: v for k, v in src["config"].items() if k not in ("template", "lock", "description")}
        for key in list(config):
            if DRIVE_KEY.fullmatch(key):
                config[key] = re.sub(rf"(?:vm|base)-{vmid}-", f"vm-{newid}-", str(config[key]))
                store, _colon, vol = config[key].split(",")[0].partition(":")
                if store in self.state["storages"] and vol.startswith(f"vm-{newid}-"):
                    self.state["storages"][store]["volumes"].setdefault(vol, 1)
            elif re.fullmatch(r"net\d+", key):
                config[key] = re.sub(
                    r"=[0-9A-F:]{17}",
                    "=BC:24:11:{:02X}:{:02X}:{:02X}".format(*tuple(secrets.token_bytes(3))),
                    config[key],
                    count=1,
                )
        config.update({k: v for k, v in (("name", name), ("description", description)) if v})
        config["smbios1"], config["vmgenid"] = f"uuid={uuid.uuid4()}", str(uuid.uuid4())
        self.state["guests"][newid] = {
            "node": node,
            "config": config,
            "pending": {},
            "status": "stopped",
            "created": self.now(),
        }
        if pool:
            self.state["pools"][pool].setdefault("members", []).append(int(newid))

    def undo_clone(self, newid, **_):
        self.state["guests"].pop(newid, None)

    def apply_pending(self, g):
        for key, value in g["pending"].items():
            if value is None:
                g["config"].pop(key, None)
            else:
                g["config"][key] = value
        g["pending"] = {}

    # ---- PCI --------------------------------------------------------------------------------
    def mapped(self, name, node):
        m = self.state["mapping"]["pci"].get(name)
        if m is None:
            return None, []
        fmt = self.props("/cluster/mapping/pci", "POST", "map")["items"]["format"]
        entries = [self.schema.check_string(fmt, e, "map")[0] for e in m["map"]]
        return m, [e for e in entries if e["node"] == node]

    def mapping_problem(self, name, m, entry, node):
        """Why a mapping entry does not fit the hardware of its node, or None."""
        devices = {d["id"]: d for d in self.state["nodes"][node].get("pci", [])}
        for i, path in enumerate(entry["path"].split(";")):
            path = path if re.search(r"\.[a-f0-9]\Z", path) else path + ".0"
            dev = devices.get(path)
            if not dev:
                return f"pci device '{path}' not found"

            def bare(v):
                return v[2:] if v and v.startswith("0x") else v

            found = {
                "id": "{}:{}".format(bare(dev["vendor"]), bare(dev["device"])),
                "subsystem-id": None,
                "iommugroup": str(dev["iommugroup"]) if dev.get("iommugroup", -1) >= 0 else None,
                "mdev": "1" if dev.get("mdev") else "0",
            }
            if dev.get("subsystem_vendor") and dev.get("subsystem_device"):
                found["subsystem-id"] = "{}:{}".format(bare(dev["subsystem_vendor"]), bare(dev["subsystem_device"]))
            given = {
                "id": entry.get("id"),
                "subsystem-id": entry.get("subsystem-id"),
                "iommugroup": entry.get("iommugroup"),
                "mdev": "1" if m.get("mdev") else "0",
            }
            for key in sorted(found):
                if key == "iommugroup" and i:
                    continue
                if found[key] is not None and given[key] is None:
                    return f"missing expected property '{key}' for device '{path}'"
                if found[key] is None and given[key] is not None:
                    return f"unexpected property '{key}' configured for device '{path}'"
                if found[key] != given[key]:
                    return f"'{key}' does not match for '{name}' ({found[key]} != {given[key]})"
        return None

    def expand(self, node, path):
        full = path if re.match(r"[a-f0-9]{4,}:[a-f0-9]{2}:", path) else "0000:" + path
        hits = [d["id"] for d in self.state["nodes"][node].get("pci", []) if d["id"].startswith(full)]
        if not hits:
            msg = f"no PCI device found for '{path}'\n"
            raise Fail(msg)
        return sorted(hits)

    def pick_devices(self, vmid, g):
        """What a start takes: check, expand and reserve the passed-through devices."""
        node, config = g["node"], g["config"]
        busy = {
            d: i
            for i, x in self.state["guests"].items()
            if i != vmid and x["node"] == node and x["status"] == "running"
            for d in x.get("devices", [])
        }
        mine, taken = [], []
        q35 = "q35" in str(config.get("machine", ""))
        for key in sorted((k for k in config if re.fullmatch(r"hostpci\d+", k)), key=natural):
            dev = self.parse(key, config[key])
            if dev.get("pcie") in TRUE_WORDS and not q35:
                raise Fail("q35 machine model is not enabled")
            if dev.get("host") and dev.get("mapping"):
                raise Fail("Cannot set both 'host' and 'mapping'.\n")
            if dev.get("mapping"):
                m, entries = self.mapped(dev["mapping"], node)
                if not entries:
                    msg = "PCI device mapping not found for '{}'\n".format(dev["mapping"])
                    raise Fail(msg)
                for e in entries:
                    problem = self.mapping_problem(dev["mapping"], m, e, node)
                    if problem:
                        msg = f"PCI device mapping invalid (hardware probably changed): {problem}\n"
                        raise Fail(msg)
                choices = [[i for p in e["path"].split(";") for i in self.expand(node, p)] for e in entries]
                if dev.get("mdev"):
                    if not m.get("mdev"):
                        raise Fail("the mapping is not for mediated devices\n")
                    continue
            elif dev.get("host"):
                choices = [[i for p in dev["host"].split(";") for i in self.expand(node, p)]]
            else:
                raise Fail("Either 'host' or 'mapping' must be set.\n")
            if len(choices) == 1:
                for d in choices[0]:
                    if d in mine:
                        msg = f"device '{d}' assigned more than once\n"
                        raise Fail(msg)
                    if d in busy:
                        msg = f"PCI device '{d}' already in use by VMID '{busy[d]}'\n"
                        raise Fail(msg)
                pick = choices[0]
            else:
                pick = next((c for c in choices if not any(d in mine or d in busy for d in c)), None)
                if pick is None:
                    msg = f"could not find a free device for '{key}'\n"
                    raise Fail(msg)
            mine += pick
            taken.append((key, pick))
        return mine


# ---- the endpoints -------------------------------------------------------------------------------
@on("POST", "/access/ticket")
def post_access_ticket(sim, call, p):
    user = p["username"] if "@" in p["username"] else "{}@{}".format(p["username"], p.get("realm", "pam"))
    known = sim.state["users"].get(user)
    if not known or not (secrets.compare_digest(known["password"], p["password"]) or p["password"] in sim.tickets):
        raise Fail("authentication failure\n", 401)
    ticket, csrf = f"PVE:{user}:{int(time.time()):08X}::{secrets.token_hex(16)}", secrets.token_hex(16)
    sim.tickets[ticket] = {"user": user, "csrf": csrf}
    return {"username": user, "ticket": ticket, "CSRFPreventionToken": csrf, "cap": {}}


@on("GET", "/version")
def get_version(sim, call, p):
    return sim.state["version"]


@on("GET", "/access/permissions")
def get_access_permissions(sim, call, p):
    user = p.get("userid") or call.user
    paths = {e["path"] for e in sim.state["acl"] if e["who"] == user} | ({p["path"]} if p.get("path") else set())
    paths |= {f"/vms/{vmid}" for pool in sim.state["pools"].values() for vmid in pool.get("members", [])}
    return {path: dict.fromkeys(sorted(sim.privileges(user, path)), 1) for path in sorted(paths)}


@on("GET", "/cluster/ha/resources")
def get_cluster_ha_resources(sim, call, p):
    return [{"sid": sid, "type": "vm", **one} for sid, one in sorted(sim.state["ha"]["resources"].items())]


@on("GET", "/cluster/backup")
def get_cluster_backup(sim, call, p):
    return [{"id": name, **job} for name, job in sorted(sim.state["backup"].items())]


@on("GET", "/cluster/replication")
def get_cluster_replication(sim, call, p):
    return [
        {"id": name, "guest": int(name.split("-")[0]), **job}
        for name, job in sorted(sim.state["replication"].items())
        if sim.allowed(call.user, "/vms/" + name.split("-")[0], ["VM.Audit"])
    ]


@on("GET", "/nodes")
def get_nodes(sim, call, p):
    return [
        {
            "node": n,
            "id": "node/" + n,
            "type": "node",
            "status": v.get("status", "online"),
            "maxcpu": v.get("cpus"),
            "maxmem": v.get("memory_gb", 0) << 30,
            "level": "",
            "ssl_fingerprint": "00",
        }
        for n, v in sorted(sim.state["nodes"].items())
    ]


@on("GET", "/nodes/{node}/network")
def get_nodes_node_network(sim, call, p):
    n = sim.state["nodes"][p["node"]]
    return [
        {
            "iface": b,
            "type": "bridge",
            "active": 1,
            "autostart": 1,
            **({"address": n["ip"], "gateway": "10.0.0.1", "cidr": n["ip"] + "/24"} if i == 0 and n.get("ip") else {}),
        }
        for i, b in enumerate(n.get("bridges", []))
        if not str(p.get("type", "")).startswith("any_")
        or sim.allowed(call.user, "/sdn/zones/localnetwork/" + b, ["SDN.Audit", "SDN.Use"], True)
    ]


@on("GET", "/nodes/{node}/lxc")
def get_nodes_node_lxc(sim, call, p):
    return []


@on("GET", "/nodes/{node}/hardware/pci")
def get_nodes_node_hardware_pci(sim, call, p):
    hidden = tuple("0x" + c for c in split_list(p.get("pci-class-blacklist", "05;06;0b")))
    out = []
    for d in sorted(sim.state["nodes"][p["node"]].get("pci", []), key=lambda d: d["id"]):
        if hidden and d.get("class", "").startswith(hidden):
            continue
        keep = (
            d
            if p.get("verbose", 1)
            else {k: d[k] for k in ("id", "class", "vendor", "device", "iommugroup", "mdev") if k in d}
        )
        out.append({"iommugroup": -1, **{k: v for k, v in keep.items() if not k.startswith("_")}})
    return out


@on("GET", "/cluster/mapping/pci")
def get_cluster_mapping_pci(sim, call, p):
    out, digest = [], sim.digest(sim.state["mapping"]["pci"])
    for name, m in sim.state["mapping"]["pci"].items():
        if not sim.allowed(call.user, "/mapping/pci/" + name, ["Mapping.Modify", "Mapping.Use", "Mapping.Audit"], True):
            continue
        entry = {**copy.deepcopy(m), "id": name, "type": "pci", "digest": digest}
        node = p.get("check-node")
        if node:
            if node not in sim.state["nodes"]:
                msg = f"hostname lookup '{node}' failed\n"
                raise Fail(msg)
            entries = sim.mapped(name, node)[1]
            entry["checks"] = (
                [{"severity": "warning", "message": f"No mapping for node {node}."}] if not entries else []
            )
            for e in entries:
                problem = sim.mapping_problem(name, m, e, node)
                if problem:
                    entry["checks"].append({"severity": "error", "message": f"Invalid configuration: {problem}\n"})
        out.append(entry)
    return out


@on("POST", "/cluster/mapping/pci")
def post_cluster_mapping_pci(sim, call, p):
    if p["id"] in sim.state["mapping"]["pci"]:
        msg = "create hardware mapping failed: pci ID '{}' already defined\n".format(p["id"])
        raise Fail(msg)
    sim.state["mapping"]["pci"][p.pop("id")] = p


@on("PUT", "/cluster/mapping/pci/{id}")
def put_cluster_mapping_pci_id(sim, call, p):
    table = sim.state["mapping"]["pci"]
    digest = p.pop("digest", None)
    if digest and digest != sim.digest(table):
        raise Fail(
            "update hardware mapping failed: detected modified configuration - file changed by other user? Try again.\n"
        )
    m = table.get(p["id"])
    if m is None:
        msg = "update hardware mapping failed: pci ID '{}' does not exist\n".format(p["id"])
        raise Fail(msg)
    for key in split_list(p.pop("delete", "")):
        if key in p:
            raise bad_params({"delete": f"unable to delete and set option '{key}' at the same time"})
        if key == "map":
            raise bad_params({"delete": "unable to delete required option 'map'"})
        m.pop(key, None)
    p.pop("id")
    m.update(p)


@on("DELETE", "/cluster/mapping/pci/{id}")
def delete_cluster_mapping_pci_id(sim, call, p):
    sim.state["mapping"]["pci"].pop(p["id"], None)


def summary(sim, vmid, g, full=True):
    c = g["config"]
    out = {
        "vmid": int(vmid),
        "status": g["status"],
        "name": c.get("name", f"VM {vmid}"),
        "cpu": 0,
        "mem": 0,
        "uptime": 0,
        "disk": 0,
        "cpus": int(c.get("cores", 1)) * int(c.get("sockets", 1)),
        "maxmem": int(str(c.get("memory", 512)).rsplit("=", maxsplit=1)[-1]) << 20,
        "maxdisk": 0,
    }
    for key in ("tags", "lock", "template"):
        if c.get(key):
            out[key] = c[key]
    return out


@on("GET", "/cluster/resources")
def get_cluster_resources(sim, call, p):
    out, want, lag = [], p.get("type"), float(sim.state["settings"]["resources_lag"])
    if want in (None, "vm"):
        for vmid, g in sorted(sim.state["guests"].items(), key=lambda kv: int(kv[0])):
            if not sim.allowed(call.user, "/vms/" + vmid, ["VM.Audit"]):
                continue
            s = summary(sim, vmid, g)
            s.update(
                {
                    "id": "qemu/" + vmid,
                    "type": "qemu",
                    "node": g["node"],
                    "template": int(s.get("template", 0)),
                    "maxcpu": s.pop("cpus"),
                }
            )
            if sim.now() - g.get("created", 0) < lag:  # before the node's next status broadcast
                s = {k: s[k] for k in ("id", "type", "vmid", "node", "template")} | {"status": "unknown"}
            out.append(s)
    if want in (None, "node"):
        out += [
            {
                "id": "node/" + n,
                "type": "node",
                "node": n,
                "status": v.get("status", "online"),
                "maxcpu": v.get("cpus"),
                "maxmem": v.get("memory_gb", 0) << 30,
            }
            for n, v in sorted(sim.state["nodes"].items())
        ]
    if want in (None, "storage"):
        out += [
            {
                "id": f"storage/{n}/{s}",
                "type": "storage",
                "node": n,
                "storage": s,
                "status": "available",
                "plugintype": v["type"],
                "content": ",".join(v["content"]),
                "shared": int(v.get("shared", 0)),
            }
            for n in sorted(sim.state["nodes"])
            for s, v in sorted(sim.state["storages"].items())
            if n in v.get("nodes", [n])
        ]
    return out


@on("GET", "/nodes/{node}/qemu")
def get_nodes_node_qemu(sim, call, p):
    return [
        summary(sim, i, g)
        for i, g in sorted(sim.state["guests"].items(), key=lambda kv: int(kv[0]))
        if g["node"] == p["node"]
    ]


@on("POST", "/nodes/{node}/qemu")
def post_nodes_node_qemu(sim, call, p):
    node, vmid = p.pop("node"), str(p.pop("vmid"))
    pool, start = p.pop("pool", None), p.pop("start", 0)
    for key in ("archive", "live-restore", "import-working-storage"):
        if key in p:
            msg = f"pve_sim: '{key}' is not simulated"
            raise Fail(msg, 501)
    store = p.pop("storage", None)
    for key in ("force", "unique", "bwlimit", "ha-managed"):
        p.pop(key, None)
    if pool and pool not in sim.state["pools"]:
        msg = f"pool '{pool}' does not exist\n"
        raise Fail(msg)
    if store:
        sim.need(call.user, "/storage/" + store, "Datastore.AllocateSpace")
    sim.need_vm(call.user, vmid, pool, "VM.Allocate")
    if start:
        sim.need_vm(call.user, vmid, pool, "VM.PowerMgmt")
    if "cdrom" in p:
        p["ide2"] = p.pop("cdrom") + ",media=cdrom"
    sim.check_rights(call, node, vmid, pool, p)
    sim.check_strict_mapping(p)
    other = sim.state["guests"].get(vmid)
    if other:
        on = other["node"]
        msg = f"unable to create VM {vmid} - VM {vmid} already exists on node '{on}'\n"
        raise Fail(msg)
    config, volumes = {}, []
    for key in sorted(p, key=natural):
        value, volume = sim.plan_value(node, vmid, key, p[key], config)
        config[key] = value
        volumes += [volume] if volume else []
    if "boot" not in config:
        disks = [
            k
            for k in sorted(config, key=natural)
            if re.fullmatch(r"(?:scsi|virtio|sata|ide)\d+", k) and "media=cdrom" not in config[k]
        ]
        nets = [k for k in sorted(config, key=natural) if re.fullmatch(r"net\d+", k)]
        cds = [k for k in sorted(config, key=natural) if "media=cdrom" in str(config[k])]
        config["boot"] = "order=" + ";".join(disks[:1] + cds[:1] + nets[:1])
    config.setdefault("smbios1", f"uuid={uuid.uuid4()}")
    config.setdefault("vmgenid", str(uuid.uuid4()))
    config["meta"] = "creation-qemu=11.0.0,ctime=%d" % time.time()
    sim.state["guests"][vmid] = {
        "node": node,
        "config": {"lock": "create"},
        "pending": {},
        "status": "stopped",
        "created": sim.now(),
    }
    return sim.task(
        call,
        node,
        "qmcreate",
        vmid,
        "create",
        vmid=vmid,
        node=node,
        config=config,
        volumes=volumes,
        pool=pool,
        start=start,
    )


@on("GET", "/nodes/{node}/qemu/{vmid}/config")
def get_nodes_node_qemu_vmid_config(sim, call, p):
    g = sim.guest(p["node"], p["vmid"], False)
    config = dict(g["config"])
    if not p.get("current"):
        for key, value in g["pending"].items():
            config.pop(key, None) if value is None else config.__setitem__(key, value)
    if "cipassword" in config:
        config["cipassword"] = "**********"
    return {**config, "digest": sim.digest(g["config"])}


@on("GET", "/nodes/{node}/qemu/{vmid}/pending")
def get_nodes_node_qemu_vmid_pending(sim, call, p):
    g = sim.guest(p["node"], p["vmid"], False)
    out = []
    for key in sorted(set(g["config"]) | set(g["pending"])):
        item = {"key": key}
        if key in g["config"]:
            item["value"] = g["config"][key]
        if key in g["pending"]:
            item.update({"delete": 1} if g["pending"][key] is None else {"pending": g["pending"][key]})
        out.append(item)
    return out


def update(sim, call, p):
    node, vmid = p.pop("node"), str(p.pop("vmid"))
    if p.pop("skiplock", 0) and call.user != "root@pam":
        raise bad_params({"skiplock": "Only root may use this option."})
    digest, delete, revert = p.pop("digest", None), split_list(p.pop("delete", "")), split_list(p.pop("revert", ""))
    for key in ("force", "background_delay", "import-working-storage"):
        p.pop(key, None)
    if not (p or delete or revert):
        raise Fail("no options specified\n")
    known = sim.schema.paths["/nodes/{node}/qemu/{vmid}/config"]["PUT"]["parameters"]["properties"]
    for name, keys in (("revert", revert), ("delete", delete)):
        for key in keys:
            if Schema._lookup(known, key) is None:
                raise bad_params({name: f"unknown option '{key}'"})
            if key in p:
                raise bad_params({"delete": f"you can't use '-{key}' and -{name} {key}' at the same time"})
    g = sim.guest(node, vmid)
    sim.check_rights(call, node, vmid, None, {**{k: g["config"].get(k, "") for k in delete}, **p}, g["config"])
    sim.check_strict_mapping(p)
    if digest and digest != sim.digest(g["config"]):
        raise Fail("checksum mismatch (file change by other user?)\n")
    sim.check_memory(p, {**g["config"], **{k: v for k, v in g["pending"].items() if v is not None}})
    for key in revert:
        g["pending"].pop(key, None)
    running = g["status"] == "running"
    merged = {**g["config"], **{k: v for k, v in g["pending"].items() if v is not None}}
    volumes, change = [], {}
    for key in delete:
        if g["config"].get("protection") and DRIVE_KEY.fullmatch(key):
            msg = f"can't remove drive '{key}' - protection mode enabled\n"
            raise Fail(msg)
        if key in merged:
            change[key] = None
    for key in sorted(p, key=natural):
        if DRIVE_KEY.fullmatch(key) and p[key] == merged.get(key):
            continue
        value, volume = sim.plan_value(node, vmid, key, p[key], merged)
        merged[key] = change[key] = value
        volumes += [volume] if volume else []
    if "boot" in p:
        sim.check_boot(p["boot"], {k: v for k, v in merged.items() if k not in delete})
    sim.take_volumes(volumes)
    for key, value in change.items():
        old = g["config"].get(key)
        if key not in g["pending"] and value == old:
            continue
        if (
            old is not None
            and DRIVE_KEY.fullmatch(key)
            and str(old).split(",", maxsplit=1)[0] != str(value).split(",", maxsplit=1)[0]
            and "media=cdrom" not in str(old)
        ):
            slot = next(i for i in range(256) if "unused%d" % i not in g["config"])
            g["config"]["unused%d" % slot] = str(old).split(",", maxsplit=1)[0]
        if running and key not in LIVE and not LIVE_RE.fullmatch(key):
            g["pending"][key] = value
            if value == old:
                del g["pending"][key]
        else:
            g["pending"].pop(key, None)
            g["config"].pop(key, None) if value is None else g["config"].__setitem__(key, value)
    return node, vmid


@on("PUT", "/nodes/{node}/qemu/{vmid}/config")
def put_nodes_node_qemu_vmid_config(sim, call, p):
    update(sim, call, p)


@on("POST", "/nodes/{node}/qemu/{vmid}/config")
def post_nodes_node_qemu_vmid_config(sim, call, p):
    node, vmid = update(sim, call, p)
    return sim.task(call, node, "qmconfig", vmid, "none")


@on("DELETE", "/nodes/{node}/qemu/{vmid}")
def delete_nodes_node_qemu_vmid(sim, call, p):
    vmid = str(p["vmid"])
    if p.get("skiplock") and call.user != "root@pam":
        raise bad_params({"skiplock": "Only root may use this option."})
    g = sim.guest(p["node"], vmid)
    if g["config"].get("protection"):
        msg = f"can't remove VM {vmid} - protection mode enabled\n"
        raise Fail(msg)
    if "vm:" + vmid in sim.state["ha"]["resources"] and not p.get("purge"):
        msg = f"unable to remove VM {vmid} - used in HA resources and purge parameter not set.\n"
        raise Fail(msg)
    if g["status"] == "running":
        msg = f"VM {vmid} is running - destroy failed\n"
        raise Fail(msg)
    if p.get("purge"):
        sim.state["ha"]["resources"].pop("vm:" + vmid, None)
        for job in sim.state["backup"].values():
            job["vmid"] = ",".join(one for one in job.get("vmid", "").split(",") if one != vmid)
        for name in [one for one in sim.state["replication"] if one.startswith(vmid + "-")]:
            del sim.state["replication"][name]
    return sim.task(call, p["node"], "qmdestroy", vmid, "destroy", vmid=vmid)


@on("GET", "/nodes/{node}/qemu/{vmid}/status/current")
def get_nodes_node_qemu_vmid_status_current(sim, call, p):
    g = sim.guest(p["node"], p["vmid"], False)
    return {
        **summary(sim, str(p["vmid"]), g),
        "qmpstatus": g["status"],
        "ha": {"managed": int("vm:{}".format(p["vmid"]) in sim.state["ha"]["resources"])},
    }


@on("POST", "/nodes/{node}/qemu/{vmid}/status/start")
def post_nodes_node_qemu_vmid_status_start(sim, call, p):
    if sim.guest(p["node"], p["vmid"], True)["config"].get("template"):
        raise Fail("you can't start a vm if it's a template\n")
    if "vm:{}".format(p["vmid"]) in sim.state["ha"]["resources"]:
        return sim.task(call, p["node"], "hastart", p["vmid"], "ha", vmid=str(p["vmid"]), wish="start")
    return sim.task(call, p["node"], "qmstart", p["vmid"], "start", vmid=str(p["vmid"]))


@on("POST", "/nodes/{node}/qemu/{vmid}/status/shutdown")
def post_nodes_node_qemu_vmid_status_shutdown(sim, call, p):
    sim.guest(p["node"], p["vmid"], True)
    if "vm:{}".format(p["vmid"]) in sim.state["ha"]["resources"]:
        return sim.task(call, p["node"], "hastop", p["vmid"], "ha", vmid=str(p["vmid"]), wish="stop")
    return sim.task(call, p["node"], "qmshutdown", p["vmid"], "stop", vmid=str(p["vmid"]))


@on("POST", "/nodes/{node}/qemu/{vmid}/clone")
def post_nodes_node_qemu_vmid_clone(sim, call, p):
    g, newid = sim.guest(p["node"], p["vmid"]), str(p["newid"])
    pool = p.get("pool")
    if pool and pool not in sim.state["pools"]:
        msg = f"pool '{pool}' does not exist\n"
        raise Fail(msg)
    sim.need_vm(call.user, newid, pool, "VM.Allocate")
    if newid in sim.state["guests"]:
        msg = f"unable to create VM {newid}: config file already exists\n"
        raise Fail(msg)
    if not g["config"].get("template") and "full" in p and not p["full"]:
        raise Fail("Linked clone feature is not supported for drive 'scsi0'\n")
    if p.get("storage") and not p.get("full", 0 if g["config"].get("template") else 1):
        raise bad_params({"storage": "parameter 'storage' not allowed for linked clones"})
    sim.check_rights(call, p["node"], newid, pool, {k: v for k, v in g["config"].items() if k.startswith("hostpci")})
    target = p.get("target") or p["node"]
    if target not in sim.state["nodes"]:
        msg = f"no such cluster node '{target}'\n"
        raise Fail(msg)
    sim.state["guests"][newid] = {
        "node": target,
        "config": {"lock": "clone"},
        "pending": {},
        "status": "stopped",
        "created": sim.now(),
    }
    return sim.task(
        call,
        p["node"],
        "qmclone",
        p["vmid"],
        "clone",
        vmid=str(p["vmid"]),
        newid=newid,
        node=target,
        name=p.get("name"),
        pool=pool,
        description=p.get("description"),
    )


@on("PUT", "/nodes/{node}/qemu/{vmid}/resize")
def put_nodes_node_qemu_vmid_resize(sim, call, p):
    g = sim.guest(p["node"], p["vmid"])
    if p["disk"] not in g["config"]:
        msg = "disk '{}' does not exist\n".format(p["disk"])
        raise Fail(msg)
    m = re.fullmatch(r"(\+?)(\d+)([MGT]?)", p["size"])
    if not m:
        raise Fail("unsupported size\n")
    gib = int(m[2]) * {"M": 1 / 1024, "G": 1, "T": 1024, "": 1 / (1 << 30)}[m[3]]
    old = re.search(r"size=(\d+)([MG])", g["config"][p["disk"]])
    now = int(old[1]) / (1024 if old[2] == "M" else 1) if old else 0
    new = now + gib if m[1] else gib
    if new < now:
        raise Fail("shrinking disks is not supported\n")
    g["config"][p["disk"]] = re.sub(r",?size=\w+", "", g["config"][p["disk"]]) + (
        f",size={int(new)}G" if new == int(new) else f",size={round(new * 1024)}M"
    )
    return sim.task(call, p["node"], "resize", p["vmid"], "none")


@on("GET", "/nodes/{node}/qemu/{vmid}/snapshot")
def get_nodes_node_qemu_vmid_snapshot(sim, call, p):
    return [
        {
            "name": "current",
            "description": "You are here!",
            "digest": sim.digest(sim.guest(p["node"], p["vmid"], False)["config"]),
        }
    ]


@on("GET", "/nodes/{node}/qemu/{vmid}/agent/network-get-interfaces")
def get_nodes_node_qemu_vmid_agent_network_get_interfaces(sim, call, p):
    g = sim.guest(p["node"], p["vmid"], False)
    if g["status"] != "running":
        msg = "VM {} is not running\n".format(p["vmid"])
        raise Fail(msg)
    if "agent_interfaces" not in g:
        raise Fail("QEMU guest agent is not running\n")
    return {"result": g["agent_interfaces"]}


def tasks_of(sim, node):
    for upid, t in sorted(sim.state["tasks"].items(), key=lambda kv: -kv[1]["start"]):
        if t["node"] == node:
            item = {
                "upid": upid,
                "node": node,
                "type": t["type"],
                "id": t["id"],
                "user": t["user"],
                "starttime": int(t["start"]),
                "pid": int(upid.split(":")[2], 16),
                "pstart": int(upid.split(":")[3], 16),
            }
            if t["status"] == "stopped":
                item.update(endtime=int(t["end"]), status=t["exit"])
            yield item


@on("GET", "/nodes/{node}/tasks")
def get_nodes_node_tasks(sim, call, p):
    items = [
        t
        for t in tasks_of(sim, p["node"])
        if (not p.get("vmid") or t["id"] == str(p["vmid"]))
        and (not p.get("typefilter") or t["type"] == p["typefilter"])
        and (not p.get("errors") or t.get("status", "OK") != "OK")
    ]
    return items[p.get("start", 0) : p.get("start", 0) + p.get("limit", 50)]


def the_task(sim, p):
    t = sim.state["tasks"].get(p["upid"])
    if not t or t["node"] != p["node"]:
        raise Fail("no such task\n")
    return t


@on("GET", "/nodes/{node}/tasks/{upid}/status")
def get_nodes_node_tasks_upid_status(sim, call, p):
    t = the_task(sim, p)
    out = {
        "upid": p["upid"],
        "node": t["node"],
        "type": t["type"],
        "id": t["id"],
        "user": t["user"],
        "status": t["status"],
        "starttime": int(t["start"]),
        "pid": int(p["upid"].split(":")[2], 16),
        "pstart": int(p["upid"].split(":")[3], 16),
    }
    if t["status"] == "stopped":
        out["exitstatus"] = t["exit"]
    return out


@on("GET", "/nodes/{node}/tasks/{upid}/log")
def get_nodes_node_tasks_upid_log(sim, call, p):
    lines = the_task(sim, p)["log"]
    return [{"n": i + 1, "t": x} for i, x in enumerate(lines)][p.get("start", 0) :][: p.get("limit", 50)]


def store_info(name, s):
    gib = 1 << 30
    return {
        "storage": name,
        "type": s["type"],
        "content": ",".join(s["content"]),
        "enabled": 1,
        "active": 1,
        "shared": int(s.get("shared", 0)),
        "total": int(s.get("total_gb", 0) * gib),
        "used": int(s.get("used_gb", 0) * gib),
        "avail": int((s.get("total_gb", 0) - s.get("used_gb", 0)) * gib),
    }


@on("GET", "/nodes/{node}/storage")
def get_nodes_node_storage(sim, call, p):
    return [
        store_info(n, s)
        for n, s in sorted(sim.state["storages"].items())
        if p["node"] in s.get("nodes", [p["node"]])
        and sim.allowed(call.user, "/storage/" + n, ["Datastore.Audit", "Datastore.AllocateSpace"], True)
        and (not p.get("content") or set(split_list(p["content"])) & set(s["content"]))
        and p.get("storage") in (None, n)
    ]


@on("GET", "/nodes/{node}/storage/{storage}/content")
def get_nodes_node_storage_storage_content(sim, call, p):
    s = sim.state["storages"].get(p["storage"])
    if not s:
        msg = "storage '{}' does not exist\n".format(p["storage"])
        raise Fail(msg)
    out = []
    for vol, gib in sorted(s["volumes"].items()):
        kind = vol.split("/")[0] if "/" in vol else "images"
        owner = re.match(r"(?:vm|base)-(\d+)-", vol)
        item = {
            "volid": "{}:{}".format(p["storage"], vol),
            "content": kind,
            "format": "raw",
            "size": int(gib * (1 << 30)),
        }
        if owner:
            item["vmid"] = int(owner[1])
        if p.get("content") in (None, kind) and (not p.get("vmid") or item.get("vmid") == p["vmid"]):
            out.append(item)
    return out


@on("GET", "/pools")
def get_pools(sim, call, p):
    out = [
        {"poolid": n, "comment": x.get("comment", ""), "members": members(sim, x)}
        for n, x in sorted(sim.state["pools"].items())
        if p.get("poolid") in (None, n) and sim.allowed(call.user, "/pool/" + n, ["Pool.Audit"])
    ]
    if p.get("poolid") and not out:
        msg = "pool '{}' does not exist\n".format(p["poolid"])
        raise Fail(msg)
    return out


def members(sim, pool):
    return [
        {
            "id": f"qemu/{v}",
            "type": "qemu",
            "vmid": v,
            "node": sim.state["guests"][str(v)]["node"],
            "name": sim.state["guests"][str(v)]["config"].get("name"),
        }
        for v in pool.get("members", [])
        if str(v) in sim.state["guests"]
    ]


def main(argv=None):
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--seed", help="JSON: nodes, storages, tokens, acl, mapping, guests, settings, ...")
    a.add_argument("--state", help="keep the state in this JSON file")
    a.add_argument("--log", help="append mutating calls to this JSON-lines file")
    a.add_argument("--host", default="127.0.0.1")
    a.add_argument("--port", type=int, default=8006)
    a.add_argument("--port-file", help="write the port here once listening")
    a.add_argument("--cert")
    a.add_argument("--key")
    a.add_argument("--cert-dir", help="where a self-signed certificate is made (needs the openssl program)")
    a.add_argument("--no-tls", action="store_true", help="plain HTTP (proxmoxer and the inventory plugin expect HTTPS)")
    o = a.parse_args(argv)
    sim = PveSim(json.loads(Path(o.seed).read_text(encoding="utf-8")) if o.seed else None, o.state, o.log)
    url = sim.start(o.host, o.port, o.cert, o.key, o.cert_dir, not o.no_tls)
    if o.port_file:
        with open(o.port_file + ".tmp", "w") as f:
            f.write(url.rsplit(":", 1)[1])
        os.replace(o.port_file + ".tmp", o.port_file)
    print(f"pve_sim on {url}", file=sys.stderr, flush=True)
    try:
        threading.Event().wait()
    except KeyboardInterrupt:
        sim.stop()


if __name__ == "__main__":
    main()
