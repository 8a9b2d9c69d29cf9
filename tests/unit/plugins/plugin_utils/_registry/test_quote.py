# Copyright (c) 2026 Knaster contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# SPDX-FileCopyrightText: 2026 Knaster contributors

"""What is quoted comes back as it was, from the programs that read it."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.knaster.inventory.plugins.plugin_utils._registry.quote import (
    EnvRef,
    clean,
    compose_text,
    env_file_value,
    go_template_text,
    promql_text,
    shell_line,
    shell_word,
    swap_text,
    swap_word,
    systemd_assignment,
    systemd_word,
)
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "peers"))
from slots import HOSTILE

TEXTS = st.text(st.characters(codec=None, exclude_characters="\0"), max_size=60)
SHELLS = [shell for shell in ("dash", "bash", "busybox") if shutil.which(shell)]


def run_shell(shell, script, **env):
    command = [shell, "sh"] if shell == "busybox" else [shell]
    done = subprocess.run(
        [*command, "-c", script], capture_output=True, check=True, timeout=30, env={"PATH": "/usr/bin:/bin", **env}
    )
    return done.stdout.decode("utf-8").split("\0")[:-1]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_gets_the_words(shell):
    wanted = [clean(text) for text in HOSTILE]
    assert run_shell(shell, f"printf '%s\\0' {shell_line(HOSTILE)}") == wanted
    assert run_shell(shell, f"printf '%s\\0' {shell_word(EnvRef('A_KEY'))}", A_KEY="a  b") == ["a  b"]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_reads_a_file_of_variables(shell):
    lines = "".join(f"V{number}={env_file_value(text)}\n" for number, text in enumerate(HOSTILE))
    names = " ".join(f'"$V{number}"' for number in range(len(HOSTILE)))
    assert run_shell(shell, f"{lines}printf '%s\\0' {names}") == [clean(text) for text in HOSTILE]


@given(st.lists(TEXTS, min_size=1, max_size=20))
def test_any_words_for_a_shell(words):
    assert shlex.split(shell_line(words)) == [clean(word) for word in words]
    assert shlex.split(" ".join(swap_word(word) for word in words)) == [clean(word) for word in words]


@given(TEXTS)
def test_no_macro_for_llama_swap(text):
    assert "${" not in swap_word(text)
    assert "${" not in swap_text(text)
    assert swap_text(text).replace("$ {", "${") == clean(text).replace("$ {", "${")


@given(TEXTS)
def test_systemd_words_are_one_line_and_undone_by_its_rules(text):
    # The rules of systemd.syntax(7) and systemd.service(5); tools/check_consumers.sh asks systemd itself.
    word = systemd_word(text)
    assert not re.search(r"[\x00-\x1f\x7f]", word)
    inner = word[1:-1]
    assert not re.search(r'(?<!\\)(?:\\\\)*"', inner)
    undone = re.sub(
        r"\\x(..)|\\(.)",
        lambda match: chr(int(match[1], 16)) if match[1] else {"n": "\n", "t": "\t", "r": "\r"}.get(match[2], match[2]),
        inner,
    )
    assert "%" not in undone.replace("%%", "")
    assert "$" not in undone.replace("$$", "")
    assert undone.replace("%%", "%").replace("$$", "$") == clean(text)
    assert systemd_assignment("A", text).replace("A=", "", 1).replace("$", "$$") == word


def test_references():
    ref = EnvRef("A_KEY")
    assert (shell_word(ref), systemd_word(ref), compose_text(ref), swap_word(ref)) == (
        '"${A_KEY}"',
        '"${A_KEY}"',
        "${A_KEY}",
        "${env.A_KEY}",
    )


@given(TEXTS)
def test_compose_sees_no_variable(text):
    assert "$" not in compose_text(text).replace("$$", "")
    assert compose_text(text).replace("$$", "$") == clean(text)


@given(TEXTS)
def test_strings_of_promql(text):
    quoted = promql_text(text)
    assert "\n" not in quoted
    # It takes this one for a fault of the encoding.
    assert "\ufffd" not in quoted
    named = {"n": "\n", "t": "\t", "r": "\r"}
    undone = re.sub(
        r"\\(?:x(..)|u(....)|(.))",
        lambda match: chr(int(match[1] or match[2], 16)) if match[1] or match[2] else named.get(match[3], match[3]),
        quoted[1:-1],
    )
    assert undone == clean(text)


@given(TEXTS)
def test_labels_are_no_templates(text):
    # Go reads {{"{{"}} as the text {{; nothing else of a template is left.
    written = go_template_text(text)
    assert "{{" not in written.replace('{{"{{"}}', "")
    assert written.replace('{{"{{"}}', "{{") == clean(text)
