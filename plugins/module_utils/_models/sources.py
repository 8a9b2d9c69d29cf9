# Copyright (c) 2026 Knaster contributors
# Simplified BSD License (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
# SPDX-FileCopyrightText: 2026 Knaster contributors

# Note that this module util is **PRIVATE** to the collection. It can have breaking changes at any time.

"""Whether the source of a model can be had: a path that holds whole weights, or an id that a model hub answers for.

Every way in which it can fail has a code of its own, a sentence that says what happened, and a remedy. Nothing here
takes longer than its limits, whatever the other side does, and no text that leaves here holds a token.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import posixpath
import re
import signal
import subprocess
import threading
import time
import typing as t
import urllib.parse
from dataclasses import dataclass, field, replace

from ansible_collections.knaster.inventory.plugins.module_utils._http import (
    Answer,
    Client,
    Hub,
    Limits,
    SourceError,
    ask_hub,
    checked_endpoint,
    shown_address,
)
from ansible_collections.knaster.inventory.plugins.module_utils._models.headers import check_lengths
from ansible_collections.knaster.inventory.plugins.module_utils._parsers.errors import ParseError
from ansible_collections.knaster.inventory.plugins.module_utils._weights.judge import (
    COMPLETE,
    UNKNOWN,
    Weights,
    gguf_quant,
    is_path,
    judge_weights,
    size_gb,
    without_copies,
)
from ansible_collections.knaster.inventory.plugins.module_utils._weights.listing import (
    LIST_FUNCTION,
    parse_listing,
)

_MAX_LISTING = 16 * 1024 * 1024

_REPO = re.compile(r"^[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?$", re.ASCII)
_REVISION = re.compile(r"^[\w][\w./-]*$", re.ASCII)
_FILE = re.compile(r"^[\w. +()-]+(?:/[\w. +()-]+)*$", re.ASCII)
_SHA256 = re.compile(r"^[0-9a-f]{64}$")
_TOKEN = re.compile(r"^[\x21-\x7e]+$")
_SNAPSHOT = re.compile(r"^(?P<base>.*/models--[^/]+)/snapshots/[^/]+(?:/.*)?$")
_HUB_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pth", ".pt", ".onnx")

# What each outcome means: whether the source can be had (None: it was not possible to find out), what happened, what to
# do. The names in braces are filled in.
OUTCOMES: t.Mapping[str, t.Tuple[t.Optional[bool], str, str]] = {
    "ok": (True, "The source can be had.", ""),
    "malformed": (
        False,
        "This is neither an absolute path nor the id of a repository.",
        "Write /path/to/model, org/name, org/name@revision, org/name:QUANT or org/name/file.gguf.",
    ),
    "path_missing": (
        False,
        "There is no such path on this node.",
        "Copy the weights there, mount the share, or correct the path.",
    ),
    "path_unreadable": (
        False,
        "The path is there, but this user may not read it.",
        "Correct the permissions, or run the task with become.",
    ),
    "path_timeout": (
        None,
        "The path did not answer within {total:g} seconds.",
        "Look at the mount that it is on: a share whose server is gone answers nothing.",
    ),
    "no_weights": (
        False,
        "There are no weights there.",
        "Name the directory or file that holds *.safetensors, *.gguf or *.bin files itself, not one above or below it.",
    ),
    "weights_partial": (
        False,
        "The weights are not whole: {detail}.",
        "Finish the download; compare the files with the ones that the index names.",
    ),
    "size_differs": (
        False,
        "The endpoint {endpoint} has a file that is not as long as its own description says: {detail}.",
        "Let the mirror fetch the file anew, or set another endpoint.",
    ),
    "endpoint_malformed": (
        None,
        "The endpoint {endpoint} is no http or https address without user, query and fragment.",
        "Set the endpoint to an address such as https://huggingface.co; a token has an option of its own.",
    ),
    "token_unusable": (
        None,
        "The token cannot be used: {detail}.",
        "Write the token alone into one line of the file, or into the environment variable.",
    ),
    "token_needed": (
        False,
        "The endpoint {endpoint} wants a token: the repository is private, gated, or does not exist.",
        "Check the name, and give a token of an account that may read it.",
    ),
    "token_refused": (
        False,
        "The endpoint {endpoint} does not accept the token.",
        "Give a valid token: this one has expired, was revoked, or belongs to another endpoint.",
    ),
    "gated": (
        False,
        "The repository is gated and access was not granted to this token.",
        "Accept the conditions on the page of the model with the account of the token, then try again.",
    ),
    "forbidden": (
        False,
        "The endpoint {endpoint} forbids access.",
        "Use a token with read access to this repository, or ask its owner.",
    ),
    "disabled": (False, "The repository was disabled by the hub.", "Choose another source for this model."),
    "not_found": (
        False,
        "The endpoint {endpoint} knows no such repository; it may also be private.",
        "Check the spelling of org/name, or give a token of an account that may read it.",
    ),
    "revision_not_found": (
        False,
        "The repository has no such revision.",
        "Name a branch, a tag or a full commit id of the repository.",
    ),
    "file_not_found": (
        False,
        "The repository has no file for {detail}.",
        "Name a file or a quantisation that the repository lists.",
    ),
    "rate_limited": (
        None,
        "The endpoint {endpoint} answers no more requests for now{detail}.",
        "Wait, or give a token: the limits for known users are higher.",
    ),
    "server_error": (
        None,
        "The endpoint {endpoint} has a fault of its own (HTTP status {detail}).",
        "Try again later, or set another endpoint.",
    ),
    "http_error": (
        None,
        "The endpoint {endpoint} gave an answer that was not expected (HTTP status {detail}).",
        "Check that the endpoint is the address of a model hub.",
    ),
    "redirect_refused": (
        None,
        "The endpoint {endpoint} sends the request on to {detail}, which was not followed.",
        "Set the endpoint to the address that it should be, with https.",
    ),
    "redirect_loop": (
        None,
        "The endpoint {endpoint} sends the request in a circle.",
        "Check the address; a proxy or a mirror is set up wrongly.",
    ),
    "dns_failure": (
        None,
        "The name of the endpoint {endpoint} could not be resolved.",
        "Check the spelling of the endpoint and the DNS of this node.",
    ),
    "connection_refused": (
        None,
        "Nothing listens at the endpoint {endpoint}.",
        "Start the mirror, or correct the port.",
    ),
    "unreachable": (
        None,
        "The endpoint {endpoint} cannot be reached: {detail}.",
        "Check the network of this node, its firewall, and whether it needs a proxy.",
    ),
    "connect_timeout": (
        None,
        "The endpoint {endpoint} did not accept a connection within {connect:g} seconds.",
        "Check the network of this node, its firewall, and whether it needs a proxy.",
    ),
    "timeout": (
        None,
        "The endpoint {endpoint} did not finish its answer within {total:g} seconds.",
        "Try again later, raise the limit, or set another endpoint.",
    ),
    "connection_lost": (
        None,
        "The endpoint {endpoint} closed the connection before its answer was whole.",
        "Try again later, or set another endpoint.",
    ),
    "tls_failure": (
        None,
        "No trusted connection to the endpoint {endpoint}: {detail}.",
        "Give the certificate of the authority that signed the endpoint's, or correct the endpoint's name.",
    ),
    "proxy_failure": (
        None,
        "The proxy for the endpoint {endpoint} does not serve the request: {detail}.",
        "Check the proxy variables of the environment, and its user and password.",
    ),
    "answer_too_large": (
        None,
        "The endpoint {endpoint} sends more than {max_bytes} bytes, which was not read.",
        "Check that the endpoint is the address of a model hub.",
    ),
    "not_json": (
        None,
        "The endpoint {endpoint} answers with something that is not JSON.",
        "Check that the endpoint is the address of a model hub and not a page to log in at.",
    ),
    "bad_answer": (
        None,
        "The endpoint {endpoint} answers with something that no model hub would: {detail}.",
        "Check that the endpoint is the address of a model hub.",
    ),
}

# After one of these the same endpoint is not asked again: every other answer would be the same, and cost as long.
_OF_THE_ENDPOINT = frozenset(
    (
        "endpoint_malformed",
        "token_unusable",
        "token_refused",
        "rate_limited",
        "dns_failure",
        "connection_refused",
        "unreachable",
        "connect_timeout",
        "timeout",
        "tls_failure",
        "proxy_failure",
    )
)


@dataclass(frozen=True)
class Source:
    """A source taken apart: a path, or a repository with what of it is meant."""

    text: str
    path: t.Optional[str] = None
    repo: t.Optional[str] = None
    revision: t.Optional[str] = None
    quant: t.Optional[str] = None
    file: t.Optional[str] = None


@dataclass(frozen=True)
class HubFile:
    """A file of a repository; what the hub does not say is None. ``sha256`` is there for files that it keeps as large ones."""

    size: t.Optional[int] = None
    sha256: t.Optional[str] = None


@dataclass(frozen=True)
class Verdict:
    """What is known of one source. ``available`` is None where it was not possible to find out.

    ``files`` are those of a repository that are meant, by name.
    """

    source: str
    kind: t.Optional[str]
    available: t.Optional[bool]
    code: str
    text: str
    remedy: str = ""
    revision: t.Optional[str] = None
    size_bytes: t.Optional[int] = None
    gated: t.Optional[bool] = None
    license: t.Optional[str] = None
    name: t.Optional[str] = None
    retry_after: t.Optional[int] = None
    files: t.Mapping[str, HubFile] = field(default_factory=dict)


def parse_source(text: str) -> Source:
    """Take a source apart, or raise a SourceError with the code ``malformed``."""
    if is_path(text):
        path = os.path.expanduser(text)
        if not path.startswith("/") or "\0" in path:
            raise SourceError("malformed")
        return Source(text, path=posixpath.normpath(path))
    repo, sep, revision = text.partition("@")
    if sep and not _is_plain(_REVISION, revision):
        raise SourceError("malformed")
    repo, sep, quant = repo.partition(":")
    if sep and not _is_plain(_REVISION, quant):
        raise SourceError("malformed")
    file = ""
    if repo.lower().endswith(".gguf") and repo.count("/") >= 2:
        owner, name, file = repo.split("/", 2)
        repo = f"{owner}/{name}"
        if not _is_plain(_FILE, file):
            raise SourceError("malformed")
    if not _is_plain(_REPO, repo):
        raise SourceError("malformed")
    return Source(text, repo=repo, revision=revision or None, quant=quant or None, file=file or None)


def find_token(environ: t.Mapping[str, str], token_path: t.Optional[str] = None) -> t.Optional[str]:
    """Return the token that the file, the environment or the hub's own place for it holds; None where there is none.

    A file that was named and cannot be read is an error; the places that nobody named may be missing.
    """
    if token_path is not None:
        return _read_token(os.path.expanduser(token_path), needed=True)
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if environ.get(name, "").strip():
            return environ[name].strip()
    home = environ.get("HF_HOME") or posixpath.join(
        environ.get("XDG_CACHE_HOME") or posixpath.join(environ.get("HOME", "/nonexistent"), ".cache"), "huggingface"
    )
    return _read_token(environ.get("HF_TOKEN_PATH") or posixpath.join(home, "token"), needed=False)


def check_source(text: str, *, hub: Hub, limits: Limits) -> Verdict:
    """Say whether this source can be had from here, within the limits."""
    kind: t.Optional[str] = None
    try:
        source = parse_source(text)
        kind = "path" if source.path is not None else "hub"
        if source.path is not None:
            return _check_path(source, source.path, limits)
        return _redacted(_check_hub(source, hub, limits), hub)
    except SourceError as exc:
        verdict = _failed(text, exc, hub, limits)
        return _redacted(replace(verdict, kind=kind), hub)


def check_sources(texts: t.Sequence[str], *, hub: Hub, limits: Limits, parallel: int = 1) -> t.List[Verdict]:
    """Check every source once, so many at a time, and answer in their order.

    An endpoint that is down, slow or fed up is asked no more once that is known; the first repository is asked alone, so
    that one that is down is asked once.
    """
    asked = _Asked(hub, limits)
    once = list(dict.fromkeys(texts))
    first = next((text for text in once if _is_hub(text)), None)
    known = {} if first is None else {first: asked.check(first)}
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, parallel)) as pool:
        waiting = {text: pool.submit(asked.check, text) for text in once if text != first}
        known.update({text: future.result() for text, future in waiting.items()})
    return [known[text] for text in texts]


class _Asked:
    """Asks for sources, and remembers what makes asking the endpoint pointless."""

    def __init__(self, hub: Hub, limits: Limits) -> None:
        self._hub = hub
        self._limits = limits
        self._lost: t.Optional[Verdict] = None

    def check(self, text: str) -> Verdict:
        if self._lost is not None and _is_hub(text):
            return replace(self._lost, source=text)
        verdict = check_source(text, hub=self._hub, limits=self._limits)
        if verdict.kind == "hub" and verdict.code in _OF_THE_ENDPOINT:
            self._lost = verdict
        return verdict


def failed_sources(texts: t.Iterable[str], error: SourceError, *, hub: Hub, limits: Limits) -> t.List[Verdict]:
    """Check the paths among the sources, and answer for the hub's with an error that makes asking it pointless."""
    verdicts = []
    for text in texts:
        if _is_hub(text):
            verdicts.append(replace(_failed(text, error, hub, limits), kind="hub"))
        else:
            verdicts.append(check_source(text, hub=hub, limits=limits))
    return verdicts


def verdict_to_plain(verdict: Verdict) -> t.Dict[str, t.Any]:
    """Return a verdict as plain data, without what is not known."""
    plain: t.Dict[str, t.Any] = {
        "source": verdict.source,
        "kind": verdict.kind,
        "available": verdict.available,
        "code": verdict.code,
        "text": verdict.text,
        "remedy": verdict.remedy,
    }
    for key in ("name", "revision", "gated", "license", "retry_after"):
        value = getattr(verdict, key)
        if value is not None:
            plain[key] = value
    if verdict.size_bytes:
        plain["size_gb"] = size_gb(verdict.size_bytes)
        plain["size_bytes"] = verdict.size_bytes
    if verdict.files:
        plain["files"] = [
            {"name": name, "size_bytes": one.size, "sha256": one.sha256} for name, one in verdict.files.items()
        ]
    return plain


def _is_plain(pattern: t.Pattern[str], text: str) -> bool:
    return pattern.match(text) is not None and ".." not in text


def _is_hub(text: str) -> bool:
    try:
        return parse_source(text).repo is not None
    except SourceError:
        return False


def explain_error(error: SourceError, *, hub: Hub, limits: Limits) -> t.Tuple[str, str]:
    """Return what happened as a sentence, and what to do about it."""
    _available, sentence, remedy = OUTCOMES[error.code]
    text = sentence.format(
        endpoint=shown_address(hub.endpoint),
        detail=error.detail,
        total=limits.total,
        connect=limits.connect,
        max_bytes=limits.max_bytes,
    )
    return text, remedy


def _failed(text: str, error: SourceError, hub: Hub, limits: Limits) -> Verdict:
    sentence, remedy = explain_error(error, hub=hub, limits=limits)
    return Verdict(
        source=text,
        kind=None,
        available=OUTCOMES[error.code][0],
        code=error.code,
        text=sentence,
        remedy=remedy,
        retry_after=error.retry_after,
    )


def _redacted(verdict: Verdict, hub: Hub) -> Verdict:
    """Return the verdict without the token, should the other side have repeated it somewhere."""
    if not hub.token:
        return verdict
    values = {key: getattr(verdict, key) for key in ("text", "name", "revision", "license")}
    return replace(verdict, **{key: text.replace(hub.token, "***") for key, text in values.items() if text})


# --- paths -----------------------------------------------------------------------------------------------------------

# The path is looked at by a child: what waits for a dead share cannot be ended, only left behind.
_LOOK = (
    LIST_FUNCTION
    + r"""
if [ -d "$1" ]; then
  [ -r "$1" ] && [ -x "$1" ] || { echo unreadable; exit; }
  echo directory
elif [ -f "$1" ]; then
  [ -r "$1" ] || { echo unreadable; exit; }
  echo file
else
  case $(ls -d -- "$1" 2>&1) in *'ermission denied'*) echo unreadable ;; *) echo none ;; esac
  exit
fi
list_weights "$2" "$3" "$4"
"""
)


def find_local_weights(path: str, limits: Limits) -> Weights:
    """Return the weights that this path is, or raise a SourceError where it is none, or they are not whole."""
    path = os.path.abspath(path)
    snapshot = _SNAPSHOT.match(path)
    if snapshot is not None:
        # The files of a snapshot are links to the blobs beside it.
        root, entry = posixpath.split(snapshot.group("base"))
        where = [root, "6", f"./{entry}"]
    else:
        root = posixpath.dirname(path) if posixpath.splitext(path)[1].lower() == ".gguf" else path
        where = [root, "1", "."]
    kind, _sep, listing = _look(path, where, limits).partition("\n")
    if kind == "unreadable":
        raise SourceError("path_unreadable")
    if kind not in ("directory", "file"):
        raise SourceError("path_missing")
    for one in judge_weights(parse_listing(root, listing)):
        if one.path != path and not (one.quant and _is_part_of(path, one.path)):
            continue
        if one.state == COMPLETE:
            return one
        if one.state == UNKNOWN:
            raise SourceError("path_unreadable")
        raise SourceError("weights_partial", f"{one.have} of {'?' if one.parts is None else one.parts} files are there")
    raise SourceError("no_weights")


def _check_path(source: Source, path: str, limits: Limits) -> Verdict:
    one = find_local_weights(path, limits)
    _check_lengths(one, limits)
    return Verdict(
        source=source.text,
        kind="path",
        available=True,
        code="ok",
        text=OUTCOMES["ok"][1],
        revision=one.revision,
        size_bytes=one.size_bytes,
        name=one.name,
    )


def _check_lengths(weights: Weights, limits: Limits) -> None:
    """Raise a SourceError where a file is shorter than its own header says, or cannot be read in time."""
    outcome: t.List[t.Optional[SourceError]] = []
    # What waits for a dead share is left behind.
    reader = threading.Thread(target=lambda: outcome.append(_fault_of_lengths(weights)), daemon=True)
    reader.start()
    reader.join(limits.total)
    fault = outcome[0] if outcome else SourceError("path_timeout")
    if fault is not None:
        raise fault


def _fault_of_lengths(weights: Weights) -> t.Optional[SourceError]:
    try:
        check_lengths(weights)
    except ParseError as exc:
        return SourceError("weights_partial", exc.reason)
    except PermissionError:
        return SourceError("path_unreadable")
    except OSError:
        return SourceError("path_missing")
    return None


def _is_part_of(path: str, first: str) -> bool:
    """Return whether a path is another part of the split file that begins with ``first``."""
    numbered = re.compile(r"-\d{5}-of-(\d{5}\.gguf)$")
    return numbered.sub(r"\1", path) == numbered.sub(r"\1", first)


def _look(path: str, where: t.Sequence[str], limits: Limits) -> str:
    """Return what the shell says of a path; give up, and leave the shell behind, at the limit."""
    try:
        child = subprocess.Popen(
            ["/bin/sh", "-c", _LOOK, "sh", path, *where],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        raise SourceError("path_missing") from exc
    output = _Collected(child.stdout, _MAX_LISTING)
    reader = threading.Thread(target=output.collect, daemon=True)
    reader.start()
    reader.join(limits.total)
    late = reader.is_alive()
    if late or output.too_much:
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
    if late:
        raise SourceError("path_timeout")
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(1)
    return output.text


class _Collected:
    """Reads a stream to its end, or to a limit, in a thread of its own."""

    def __init__(self, stream: t.Optional[t.IO[bytes]], limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self.text = ""
        self.too_much = False

    def collect(self) -> None:
        """Read; the text is there when this is over."""
        if self._stream is None:
            return
        data = self._stream.read(self._limit + 1)
        self.too_much = len(data) > self._limit
        self.text = data[: self._limit].decode("utf-8", "surrogateescape")


# --- the hub ---------------------------------------------------------------------------------------------------------


def base_of(hub: Hub) -> str:
    """Return the address of a hub without a slash at its end, or raise where it or the token cannot be used."""
    if hub.token is not None and not _TOKEN.match(hub.token):
        raise SourceError("token_unusable", "it holds blanks, line breaks or letters that no token has")
    return checked_endpoint(hub.endpoint)


def _check_hub(source: Source, hub: Hub, limits: Limits) -> Verdict:
    base = base_of(hub)
    return ask_hub(hub, limits, lambda client: _ask(source, base, hub, client))


def _ask(source: Source, base: str, hub: Hub, client: Client) -> Verdict:
    model = describe_repo(source, base, hub, client)
    files = list_files(model)
    wanted = wanted_files(source, files)
    revision = commit_of(model)
    # The hub describes gated repositories to everybody; only asking for a file tells whether it can be had.
    probe = client.request("HEAD", file_url(source, base, wanted[0], revision), follow=False)
    if probe.status not in (405, 501):
        raise_for_status(probe, hub)
        _check_size(wanted[0], files[wanted[0]].size, probe)
    sizes = [files[name].size for name in wanted]
    return Verdict(
        source=source.text,
        kind="hub",
        available=True,
        code="ok",
        text=OUTCOMES["ok"][1],
        revision=revision,
        size_bytes=sum(size or 0 for size in sizes) if all(sizes) else None,
        gated=bool(model.get("gated")),
        license=_license(model),
        name=repo_name(model),
        files={name: files[name] for name in wanted},
    )


def _check_size(name: str, size: t.Optional[int], probe: Answer) -> None:
    """Raise where the length of a file, as far as it is told before it is sent, is not the one of the description."""
    told = probe.headers.get("x-linked-size")
    if told is None and probe.status == 200:
        told = probe.headers.get("content-length")
    if size is not None and told is not None and re.match(r"^\d{1,18}$", told) and int(told) != size:
        raise SourceError("size_differs", f"{name} has {told} bytes and not {size}")


def describe_repo(source: Source, base: str, hub: Hub, client: Client) -> t.Dict[str, t.Any]:
    """Return what the hub says of the repository, or raise where it says that it cannot be had."""
    url = f"{base}/api/models/{urllib.parse.quote(source.repo or '')}"
    if source.revision is not None:
        url += "/revision/" + urllib.parse.quote(source.revision, safe="")
    answer = client.request("GET", url + "?blobs=true")
    raise_for_status(answer, hub)
    model = read_model(answer)
    if model.get("disabled") is True:
        raise SourceError("disabled")
    return model


def commit_of(model: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Return the commit that the hub describes; None where it does not say it."""
    sha = model.get("sha")
    return sha if isinstance(sha, str) and _REVISION.match(sha) else None


def file_url(source: Source, base: str, name: str, revision: t.Optional[str]) -> str:
    """Return the address of a file of the repository."""
    ref = urllib.parse.quote(revision or source.revision or "main", safe="")
    return f"{base}/{urllib.parse.quote(source.repo or '')}/resolve/{ref}/{urllib.parse.quote(name)}"


def _license(model: t.Mapping[str, t.Any]) -> t.Optional[str]:
    card = model.get("cardData")
    text = card.get("license") if isinstance(card, dict) else None
    return text if isinstance(text, str) and _REVISION.match(text) else None


def repo_name(model: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Return the name that the hub has for the repository; None where it says none."""
    text = model.get("id")
    return text if isinstance(text, str) and _REPO.match(text) else None


def read_model(answer: Answer) -> t.Dict[str, t.Any]:
    """Return the JSON object of an answer, or raise where it is none."""
    try:
        model = json.loads(answer.body.decode("utf-8"))
    except (ValueError, RecursionError) as exc:
        raise SourceError("not_json") from exc
    if not isinstance(model, dict):
        raise SourceError("bad_answer", "JSON, but no description of a model")
    return model


def list_files(model: t.Mapping[str, t.Any]) -> t.Dict[str, HubFile]:
    """Return the files that a hub lists, with their sizes and digests where it says them."""
    siblings = model.get("siblings")
    if not isinstance(siblings, list):
        raise SourceError("bad_answer", "a model without a list of files")
    files: t.Dict[str, HubFile] = {}
    for sibling in siblings:
        name = sibling.get("rfilename") if isinstance(sibling, dict) else None
        if isinstance(name, str):
            size = sibling.get("size")
            known = isinstance(size, int) and not isinstance(size, bool) and size > 0
            files[name] = HubFile(size if known else None, _digest(sibling.get("lfs")))
    return files


def _digest(lfs: t.Any) -> t.Optional[str]:
    """Return the SHA-256 that the hub keeps of a large file; None where it says none."""
    digest = lfs.get("sha256") if isinstance(lfs, dict) else None
    return digest if isinstance(digest, str) and _SHA256.match(digest) else None


def wanted_files(source: Source, files: t.Collection[str]) -> t.List[str]:
    """Return the files of a repository that the source means; one at least."""
    if source.file is not None:
        if source.file not in files:
            raise SourceError("file_not_found", source.file)
        return [source.file]
    weights = sorted(name for name in files if name.endswith(_HUB_WEIGHTS))
    if source.quant is not None:
        asked = source.quant.upper()
        found = [name for name in weights if (gguf_quant(posixpath.basename(name)) or "") == asked]
        found = [name for name in found if name.endswith(".gguf") and "mmproj" not in name.lower()]
        if not found:
            raise SourceError("file_not_found", source.quant)
        return found
    if not weights:
        raise SourceError("no_weights")
    for suffix in _HUB_WEIGHTS:
        # A repository often has the same weights in several formats; engines take the first of these.
        top = [name for name in weights if name.endswith(suffix) and "/" not in name]
        if top:
            return without_copies(top)
    return weights


def raise_for_status(answer: Answer, hub: Hub) -> None:
    """Raise what an answer means that is no success."""
    status = answer.status
    reason = answer.headers.get("x-error-code", "")
    if 200 <= status < 400:
        return
    if reason == "GatedRepo":
        raise SourceError("gated")
    if reason in ("RepoNotFound", "RepositoryNotFound"):
        raise SourceError("not_found")
    if reason == "RevisionNotFound":
        raise SourceError("revision_not_found")
    if reason == "EntryNotFound":
        raise SourceError("file_not_found", "what it lists")
    if status == 401:
        raise SourceError("token_needed" if hub.token is None else "token_refused")
    if status == 403:
        raise SourceError("forbidden")
    if status in (404, 410):
        raise SourceError("not_found")
    if status == 407:
        raise SourceError("proxy_failure", "it wants a user and a password")
    if status == 429:
        seconds = _retry_after(answer.headers.get("retry-after", ""))
        raise SourceError(
            "rate_limited", "" if seconds is None else f"; it asks to wait {seconds} seconds", retry_after=seconds
        )
    raise SourceError("server_error" if status >= 500 else "http_error", str(status))


def _retry_after(text: str) -> t.Optional[int]:
    """Return the seconds to wait; the header holds a number or a date."""
    if re.match(r"^\d{1,9}$", text.strip()):
        return int(text)
    try:
        when = time.mktime(time.strptime(text.strip(), "%a, %d %b %Y %H:%M:%S GMT")) - time.timezone
    except (ValueError, OverflowError):
        return None
    return max(0, int(when - time.time()))


def _read_token(path: str, *, needed: bool) -> t.Optional[str]:
    try:
        with open(path, "rb") as stream:
            token = stream.read(4096).decode("ascii").strip()
    except (OSError, ValueError) as exc:
        if needed:
            what = "is no plain text" if isinstance(exc, UnicodeError) else "cannot be read"
            raise SourceError("token_unusable", f"the file {path} {what}") from None
        return None
    if needed and not token:
        raise SourceError("token_unusable", f"the file {path} is empty")
    return token or None
