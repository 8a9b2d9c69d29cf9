# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Make a VM of Proxmox VE what its definition says, in rounds of looking, comparing and doing.

Every round starts from what PVE has now. So it does not matter where a run before it ended, and a call whose answer was
lost needs nothing but another round. A VM without the mark of the collection is never touched.
"""

from __future__ import annotations

import functools
import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.agent import ask_address
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.client import (
    Pve,
    PveError,
    PveLostError,
    PveTaskError,
    join,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.compare import (
    Changes,
    addition_candidates,
    clone_values,
    compare,
    create_values,
    created_view,
    device_mappings,
    inherited_keys,
    is_disk,
    shown,
    start_limit,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.guests import (
    Guest,
    is_vm,
    parse_tag_list,
    read_guest_devices,
    read_guests,
)
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mappings import parse_entry, read_mappings
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.mark import TAG, Mark, parse_mark
from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.properties import is_drive, natural

if t.TYPE_CHECKING:
    from ansible_collections.knaster.inventory.plugins.module_utils._proxmox.definition import Definition

_ROUNDS = 10
_LOST_LIMIT = 3
_MARGIN = 60.0
# Locks of a VM that is being made. When the task is gone and the lock is not, the VM is half-made.
_MAKING = frozenset(("create", "clone"))
# What a running VM takes over at once; everything else waits for its next start.
_LIVE = re.compile(
    r"(?:net|scsi|virtio|sata|usb|unused|ipconfig)\d+\Z|(?:description|tags|name|onboot|startup|protection|hookscript|"
    r"shares|balloon|cicustom|cipassword|citype|ciupgrade|ciuser|nameserver|searchdomain|sshkeys)\Z"
)


@dataclass(frozen=True)
class VmOptions:
    """What may be done, and the seconds that it may take. ``start_limit`` None takes what PVE itself gives the VM.

    ``made_before`` are mappings that a task before makes or corrects, so that check mode does not miss them. ``address_limit``
    is for how long the guest agent is asked for an address, None for not at all.
    """

    present: bool = True
    started: t.Optional[bool] = None
    allow_stop: bool = False
    strict: bool = False
    purge: bool = True
    made_before: t.FrozenSet[str] = frozenset()
    check_mode: bool = False
    task_limit: float = 1800.0
    start_limit: t.Optional[float] = None
    stop_limit: float = 180.0
    address_limit: t.Optional[float] = None


@dataclass(frozen=True)
class _Seen:
    """A VM as PVE has it now."""

    node: str
    config: t.Mapping[str, t.Any]
    digest: t.Optional[str]
    running: bool
    by_ha: bool
    pending: t.Mapping[str, t.Any]

    @property
    def mark(self) -> t.Optional[Mark]:
        return parse_mark(self.config.get("description"))

    @property
    def status(self) -> str:
        return "running" if self.running else "stopped"

    @property
    def lock(self) -> t.Optional[str]:
        return str(self.config["lock"]) if self.config.get("lock") else None


@dataclass
class _Step:
    """One call that changes something, and how it is told."""

    action: str
    text: str
    run: t.Callable[[], None]


@dataclass
class _Plan:
    """What a round would do, and the difference that it makes."""

    steps: t.List[_Step] = field(default_factory=list)
    before: t.Dict[str, t.Any] = field(default_factory=dict)
    after: t.Dict[str, t.Any] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)
    later: t.List[t.Dict[str, str]] = field(default_factory=list)
    stops: bool = False

    @property
    def told(self) -> t.List[t.Dict[str, str]]:
        """Return the steps, and those that follow when they are done."""
        return [{"action": step.action, "text": step.text} for step in self.steps] + self.later

    @property
    def signature(self) -> t.List[str]:
        return [step.text for step in self.steps]


def ensure_vm(api: Pve, wanted: Definition, options: VmOptions) -> t.Dict[str, t.Any]:
    """Make a VM as it is defined and return what changed, or in check mode what would.

    :raises PveError: where it cannot be; what was done then stays done
    """
    api.hide(wanted.cipassword)
    return _Run(api, wanted, options).run()


class _Run:
    """One VM in one run."""

    def __init__(self, api: Pve, wanted: Definition, options: VmOptions) -> None:
        self.api = api
        self.wanted = wanted
        self.options = options
        self.node: t.Optional[str] = None
        self.template_node: t.Optional[str] = None
        self.inherited: t.Optional[t.FrozenSet[str]] = None
        self.warnings: t.List[str] = []
        self.checked = False
        # It ran, and has to run again when it is as defined.
        self.stopped = False

    @property
    def path(self) -> str:
        return join("nodes", self.node or self.wanted.node, "qemu", self.wanted.vmid)

    @property
    def title(self) -> str:
        return f"VM {self.wanted.vmid} ({self.wanted.name})" if self.wanted.name else f"VM {self.wanted.vmid}"

    def run(self) -> t.Dict[str, t.Any]:
        first: t.Optional[_Plan] = None
        done: t.List[str] = []
        lost = 0
        for number in range(_ROUNDS):
            seen = self._look(locate=not number or lost > 0)
            plan = self._plan(seen)
            first = first or plan
            if self.options.check_mode:
                self._foretell_mappings(plan)
                break
            if not plan.steps:
                break
            if plan.signature == done:
                raise PveError(
                    f"{self.title}: PVE took this and has it otherwise afterwards: {'; '.join(done)}. See the log of its tasks"
                )
            try:
                self._check_mappings(plan)
                for step in plan.steps:
                    step.run()
                done = plan.signature
            except PveError as exc:
                # Refused because of a lock or another change, or lost: nothing is known but what the next look shows.
                # A call that was thought lost can still be on its way, and is then in the way of the next one.
                late = lost > 0 and "already exists" in exc.message
                lost += 1
                # The client has waited for the locks of calls; those that a task ran into are left.
                locked = isinstance(exc, PveTaskError) and exc.is_lock
                if lost > _LOST_LIMIT or not (isinstance(exc, PveLostError) or locked or exc.is_changed or late):
                    raise
                done = []
                self.api.sleep(min(0.5 * 2**lost, 5.0))
                self._await_tasks()
        else:
            raise PveError(f"{self.title}: it is not as defined after {_ROUNDS} rounds")
        return self._result(first, plan, seen)

    # ---- looking

    def _look(self, *, locate: bool) -> t.Optional[_Seen]:
        if locate:
            self.node = self._locate()
        if self.node is None and locate:
            return None
        self.node = self.node or self.wanted.node
        seen = self._read()
        if seen is not None and seen.lock in _MAKING:
            seen = self._await_made(seen)
        if seen is None:
            self.node = None
        return seen

    def _locate(self) -> t.Optional[str]:
        """Return the node that the VM is on, or None.

        :raises PveError: where a container has the number, or another VM the name
        """
        found = None
        for guest in read_guests(self.api):
            vmid = int(guest["vmid"])
            if vmid == self.wanted.vmid:
                if not is_vm(guest):
                    raise PveError(
                        f"The number {vmid} is held by a container on {guest.get('node')}. Choose another vmid"
                    )
                found = str(guest["node"])
            elif vmid == self.wanted.source.template:
                self.template_node = str(guest["node"])
            elif self._is_our_name(guest):
                raise PveError(
                    f"{self.title}: there is a VM of that name already, as number {vmid} on {guest.get('node')}."
                    " Keep its number in the definition, or remove it"
                )
        return found

    def _is_our_name(self, guest: Guest) -> bool:
        """Return whether another VM of our fleet has the name; one of another fleet may."""
        if not (self.options.present and guest.get("name") == self.wanted.name and TAG in parse_tag_list(guest)):
            return False
        mark = read_guest_devices(self.api, guest).mark
        return mark is None or mark.fleet in ("", self.wanted.fleet)

    def _read(self) -> t.Optional[_Seen]:
        try:
            config = self.api.get(self.path + "/config")
            state = self.api.get(self.path + "/status/current")
        except PveError as exc:
            if exc.is_missing:
                return None
            raise
        if not isinstance(config, dict) or not isinstance(state, dict):
            raise PveError(f"{self.title}: PVE's answer is not a configuration", path=self.path)
        managed = state.get("ha")
        running = state.get("status") == "running"
        pending = self._pending() if running else {}
        # What waits for a start is as good as done: it is not sent again.
        config = {**config, **pending}
        return _Seen(
            node=self.node or self.wanted.node,
            config={key: value for key, value in config.items() if key != "digest" and value is not None},
            digest=config.get("digest"),
            running=running,
            pending=pending,
            by_ha=isinstance(managed, dict) and str(managed.get("managed", 0)) == "1",
        )

    def _tasks(self, node: str, vmid: int, **more: t.Any) -> t.List[t.Dict[str, t.Any]]:
        return [task for task in self.api.rows(join("nodes", node, "tasks"), vmid=vmid, **more) if task.get("upid")]

    def _await_tasks(self) -> None:
        """Wait for what PVE is doing to the VM; how it ends shows in the next look."""
        places = [(self.node or self.wanted.node, self.wanted.vmid)]
        if self.template_node is not None and self.wanted.source.template is not None:
            # A task that clones goes by the number of the template.
            places.append((self.template_node, self.wanted.source.template))
        for node, vmid in places:
            for task in self._tasks(node, vmid, source="active"):
                if not task.get("endtime") and (vmid == self.wanted.vmid or task.get("type") == "qmclone"):
                    try:
                        self.api.wait(str(task["upid"]), self.options.task_limit)
                    except PveTaskError as exc:
                        self.warnings.append(str(exc))

    def _await_made(self, seen: _Seen) -> t.Optional[_Seen]:
        """Wait for the task that makes a VM. Without a task it is what a failed run left behind."""
        if self.options.check_mode:
            return seen
        self._await_tasks()
        again = self._read()
        if again is None or again.lock not in _MAKING:
            return again
        ours = self._is_ours(again) or any(
            task.get("user") == self.api.settings.identity
            for task in self._tasks(again.node, self.wanted.vmid, source="all", typefilter="qmcreate")
        )
        if ours and self.api.settings.identity == "root@pam":
            # Only root may pass over the lock.
            self.api.wait(str(self.api.delete(self.path, skiplock=1, purge=1)), self.options.task_limit)
            return None
        whose = "by an earlier run" if ours else "by somebody else, or it is being made right now"
        raise PveError(
            f"{self.title}: on {again.node} there is a VM that was left half-made {whose} and is locked ({again.lock})."
            f" When nothing works on it any more, run on {again.node}: qm unlock {self.wanted.vmid} && qm destroy"
            f" {self.wanted.vmid}; then run again"
        )

    # ---- comparing

    def _is_ours(self, seen: _Seen) -> bool:
        mark = seen.mark
        return (
            mark is not None
            and (not self.wanted.name or mark.vm == self.wanted.name)
            and mark.fleet in ("", self.wanted.fleet)
        )

    def _refuse_external(self, seen: _Seen) -> None:
        if self._is_ours(seen):
            return
        held = f"The number {self.wanted.vmid} is held on {seen.node} by"
        if seen.mark is None:
            raise PveError(
                f"{held} a VM ({seen.config.get('name') or 'without name'}) that does not carry the mark of this collection."
                " It was not touched. Choose another vmid, or, if its description was edited, put this line back into it:"
                f" {self.wanted.mark.line()}"
            )
        if seen.mark.fleet not in ("", self.wanted.fleet):
            raise PveError(
                f"{held} {seen.mark.vm} of the fleet {seen.mark.fleet}, and not of {self.wanted.fleet or 'a fleet'}."
                " It was not touched. Choose another vmid, or name its fleet"
            )
        raise PveError(
            f"{held} {seen.mark.vm}, another VM of this collection, and not by {self.wanted.name}. Choose another vmid, or"
            " remove that VM first"
        )

    def _plan(self, seen: t.Optional[_Seen]) -> _Plan:
        if not self.options.present:
            return self._plan_absent(seen)
        if seen is None:
            return self._plan_create()
        if seen.lock in _MAKING:  # only in check mode, which does not wait
            text = f"It is locked ({seen.lock}), so it is being made or was left half-made"
            remedy = "A run without check mode waits for it, and says what to do if it was left"
            plan = _Plan()
            plan.changes.attend("being_made", "lock", text, remedy)
            return plan
        self._refuse_external(seen)
        if seen.config.get("template"):
            raise PveError(f"{self.title} is a template now. Remove it or choose another vmid")
        if seen.node != self.wanted.node:
            raise PveError(
                f"{self.title} is on {seen.node}, the definition says {self.wanted.node}. Stop it and move it with"
                f" qm migrate {self.wanted.vmid} {self.wanted.node}, or remove it there first"
            )
        return self._plan_update(seen)

    def _plan_create(self) -> _Plan:
        wanted = self.wanted
        plan = _Plan(after=created_view(wanted))
        template = wanted.source.template
        if template is not None:
            if self.template_node is None:
                raise PveError(
                    f"{self.title}: there is no template {template}, or the user may not see it (VM.Audit, VM.Clone)"
                )
            plan.steps.append(
                _Step("clone", f"clone template {template} to {self.title} on {wanted.node}", self._clone)
            )
        else:
            source = f" from {wanted.source.image}" if wanted.source.image else ""
            plan.steps.append(_Step("create", f"create {self.title} on {wanted.node}{source}", self._create))
        if self.options.started:
            plan.later.append({"action": "start", "text": f"start {self.title}"})
            plan.after["status"] = "running"
        return plan

    def _plan_update(self, seen: _Seen) -> _Plan:
        options = self.options
        changes = compare(self.wanted, seen.config, inherited=self._inherited(seen), strict=options.strict)
        plan = _Plan(before=dict(changes.before), after=dict(changes.after), changes=changes)
        if options.started is False and seen.running and not options.allow_stop:
            raise PveError(f"{self.title} runs and has to be stopped, which is not allowed. Stop it, or set allow_stop")
        # What waits for a restart gets one where that is allowed: what changes now, and what an earlier run left waiting.
        waits = bool(seen.pending) or any(not _LIVE.match(key) for key in [*changes.set, *changes.delete])
        plan.stops = seen.running and (options.started is False or (waits and options.allow_stop))
        runs = seen.running and not plan.stops
        starts = not runs and (options.started is True or (options.started is None and (plan.stops or self.stopped)))
        if plan.stops:
            plan.steps.append(_Step("stop", f"shut down {self.title}", functools.partial(self._stop, seen)))
        if changes.set or changes.delete:
            keys = sorted([*changes.set, *changes.delete])
            plan.steps.append(
                _Step("update", f"change {', '.join(keys)} of {self.title}", lambda: self._update(changes, seen))
            )
        for disk, size in sorted(changes.resize.items()):
            text = f"grow {disk} of {self.title} to {size}"
            plan.steps.append(_Step("resize", text, functools.partial(self._resize, disk, size)))
        if starts:
            plan.steps.append(_Step("start", f"start {self.title}", lambda: self._start(seen)))
        ends_running = runs or starts
        if ends_running != seen.running:
            plan.before["status"] = seen.status
            plan.after["status"] = "running" if ends_running else "stopped"
        return plan

    def _plan_absent(self, seen: t.Optional[_Seen]) -> _Plan:
        plan = _Plan()
        if seen is None:
            return plan
        self._refuse_external(seen)
        if seen.running and not self.options.allow_stop:
            raise PveError(f"{self.title} runs and has to be stopped before it is removed. Stop it, or set allow_stop")
        plan.before = {key: shown(key, str(value)) for key, value in sorted(seen.config.items())}
        plan.before["status"] = seen.status
        if seen.running:
            plan.steps.append(_Step("stop", f"shut down {self.title}", functools.partial(self._stop, seen)))
        disks = sorted((key for key in seen.config if is_drive(key) and is_disk(str(seen.config[key]))), key=natural)
        with_disks = f" with {', '.join(disks)}" if disks else ""
        plan.steps.append(_Step("remove", f"remove {self.title}{with_disks}", self._remove))
        return plan

    def _inherited(self, seen: _Seen) -> t.FrozenSet[str]:
        """Return what the template has: nobody added it. It is only asked for when there is something to report."""
        template = self.wanted.source.template
        if template is None or self.template_node is None or not addition_candidates(self.wanted, seen.config):
            return frozenset()
        if self.inherited is None:
            try:
                config = self.api.get(join("nodes", self.template_node, "qemu", template, "config"))
            except PveError as exc:
                self.warnings.append(f"The template could not be read, so its devices are reported as additions: {exc}")
                config = {}
            self.inherited = inherited_keys(config if isinstance(config, dict) else {})
        return self.inherited

    def _needs_mappings(self, plan: _Plan) -> bool:
        return bool(plan.changes.devices) or any(step.action in ("create", "clone", "start") for step in plan.steps)

    def _foretell_mappings(self, plan: _Plan) -> None:
        """Report mappings that are missing, in check mode: the tasks before only said that they would make them."""
        if self._needs_mappings(plan):
            for problem in mapping_problems(self.api, self.wanted, made_before=self.options.made_before):
                plan.changes.attend("mapping", problem.split(":")[0], problem, "Make the mapping first")

    def _check_mappings(self, plan: _Plan) -> None:
        """Raise for mappings that do not fit: PVE only looks at them when the VM starts."""
        if self.checked or not self._needs_mappings(plan):
            return
        problems = mapping_problems(self.api, self.wanted)
        if problems:
            raise PveError(f"{self.title}: {'; '.join(problems)}")
        self.checked = True

    # ---- doing

    def _create(self) -> None:
        path = join("nodes", self.wanted.node, "qemu")
        upid = self.api.post(path, vmid=self.wanted.vmid, **create_values(self.wanted))
        self._wait(upid, self.options.task_limit)
        self.node = self.wanted.node

    def _clone(self) -> None:
        template_node = self.template_node or self.wanted.node
        path = join("nodes", template_node, "qemu", self.wanted.source.template or 0, "clone")
        self._wait(self.api.post(path, **clone_values(self.wanted, template_node)), self.options.task_limit)
        self.node = self.wanted.node

    def _update(self, changes: Changes, seen: _Seen) -> None:
        values: t.Dict[str, t.Any] = dict(changes.set)
        if changes.delete:
            values["delete"] = ",".join(changes.delete)
        if seen.digest:
            values["digest"] = seen.digest
        if changes.allocates:
            self._wait(self.api.post(self.path + "/config", **values), self.options.task_limit)
        else:
            self.api.put(self.path + "/config", **values)

    def _resize(self, disk: str, size: str) -> None:
        self._wait(self.api.put(self.path + "/resize", disk=disk, size=size), self.options.task_limit)

    def _start(self, seen: _Seen) -> None:
        limit = self.options.start_limit or start_limit(self.wanted.config) + _MARGIN
        self._command("start", limit, done="already running")
        self._await_ha(seen, "running", limit)

    def _stop(self, seen: _Seen) -> None:
        self.stopped = True
        limit = int(self.options.stop_limit)
        self._command("shutdown", limit + _MARGIN, done="not running", timeout=limit, forceStop=1)
        self._await_ha(seen, "stopped", limit + _MARGIN)

    def _await_ha(self, seen: _Seen, status: str, limit: float) -> None:
        """Wait for high availability, which only takes note of a wish and acts on it in its own time.

        :raises PveError: where it did not act
        """
        if not seen.by_ha:
            return
        end = self.api.clock() + limit
        while self.api.get(self.path + "/status/current").get("status") != status:
            if self.api.clock() >= end:
                raise PveError(
                    f"{self.title}: its high availability did not make it {status} within {limit:g} seconds. See the state of"
                    f" vm:{self.wanted.vmid} in the HA panel"
                )
            self.api.sleep(2.0)

    def _command(self, command: str, limit: float, *, done: str, **more: t.Any) -> None:
        """Run a command and wait for it.

        :param done: what PVE says where there is nothing to do
        """
        try:
            self._wait(self.api.post(f"{self.path}/status/{command}", **more), limit)
        except PveError as exc:
            if done not in exc.message:
                raise

    def _remove(self) -> None:
        # Without purge, jobs for backup and replication keep the number for the VM that gets it next.
        more = {"purge": 1} if self.options.purge else {}
        self._wait(self.api.delete(self.path, **more), self.options.task_limit)

    def _wait(self, upid: t.Any, limit: float) -> None:
        """Wait for the task of a call; one that PVE does at once answers with nothing."""
        if upid:
            self.warnings.extend(self.api.wait(str(upid), limit))

    # ---- telling

    def _result(self, first: _Plan, last: _Plan, seen: t.Optional[_Seen]) -> t.Dict[str, t.Any]:
        waiting = {
            key: value if value is None else shown(key, str(value))
            for key, value in (seen.pending if seen else {}).items()
        }
        restart = bool(waiting)
        if self.options.check_mode and seen is not None and seen.running and not first.stops:
            restart = restart or any(not _LIVE.match(key) for key in [*first.changes.set, *first.changes.delete])
        mark = seen.mark if seen is not None else None
        address = self._address(seen)
        return {
            "changed": bool(first.steps),
            "vmid": self.wanted.vmid,
            "name": self.wanted.name or (mark.vm if mark else None),
            "node": seen.node if seen is not None else self.wanted.node or None,
            "exists": seen is not None,
            "vm_status": seen.status if seen is not None else None,
            "address": address,
            "actions": first.told,
            "pending": waiting,
            "restart_needed": restart,
            "external_additions": last.changes.external if not self.options.strict or self.options.check_mode else [],
            "attention": last.changes.attention,
            "diff": {"before": first.before, "after": first.after},
            "warnings": list(dict.fromkeys(self.warnings)),
        }

    def _address(self, seen: t.Optional[_Seen]) -> t.Optional[str]:
        """Return what the guest agent tells; without an answer the VM is as defined all the same."""
        limit = self.options.address_limit
        if limit is None or seen is None or not seen.running:
            return None
        net = str(seen.config.get("net0") or "")
        limit = 0.0 if self.options.check_mode else limit
        address, reason = ask_address(self.api, seen.node, self.wanted.vmid, net, limit)
        if address is None:
            self.warnings.append(f"{self.title}: its address is not known: {reason}")
        return address

    def _pending(self) -> t.Dict[str, t.Any]:
        """Return what waits for the next start: by key the value that it gets, None where it goes."""
        return {
            str(item.get("key", "")): item.get("pending")
            for item in self.api.rows(self.path + "/pending")
            if "pending" in item or item.get("delete")
        }


def mapping_problems(api: Pve, wanted: Definition, *, made_before: t.AbstractSet[str] = frozenset()) -> t.List[str]:
    """Return why the VM would not start with the mappings that it names; those that are made before are not looked at."""
    needed = {key: name for key, name in device_mappings(wanted.config).items() if name not in made_before}
    known = read_mappings(api, check_node=wanted.node) if needed else {}
    problems = []
    for key, name in sorted(needed.items()):
        found = known.get(name)
        if found is None:
            problems.append(
                f"{key}: there is no mapping {name}, or the user may not see it (Mapping.Use). Make it first"
            )
            continue
        entries = [entry for entry in map(parse_entry, found["map"]) if entry.get("node") == wanted.node]
        paths = [str(entry.get("path")) for entry in entries]
        if not paths:
            problems.append(f"{key}: the mapping {name} has no entry for {wanted.node}")
            continue
        path = wanted.mappings.get(name)
        if path is not None and path not in paths:
            problems.append(f"{key}: the mapping {name} is {', '.join(paths)}, the definition says {path}")
        problems.extend(
            f"{key}: PVE says of the mapping {name}: {' '.join(str(remark.get('message', '')).split())}"
            for remark in found.get("checks") or []
            if isinstance(remark, dict) and remark.get("severity") == "error"
        )
    return problems
