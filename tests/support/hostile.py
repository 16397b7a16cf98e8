"""A repository in which everything that can name a program names one that leaves a mark."""

from pathlib import Path

from tests.support.repository import git

HOOKS = ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "fsmonitor-watchman")
SETTINGS = (
    *("filter.x.clean", "filter.x.smudge", "core.fsmonitor", "diff.x.textconv", "diff.x.command", "diff.external"),
    *("core.sshCommand", "core.pager", "pager.status", "pager.diff", "pager.config", "core.editor", "core.askPass"),
    *("core.alternateRefsCommand", "gpg.program", "credential.helper", "sequence.editor", "remote.origin.uploadpack"),
    *("alias.status", "alias.diff", "alias.ls-files", "merge.x.driver", "interactive.diffFilter", "core.gitProxy"),
    *("hook.x.command", "uploadpack.packObjectsHook", "trailer.x.command", "filter.y.process", "filter.z.clean"),
)
"""Settings whose value is a command."""
ATTRIBUTES = "* filter=x diff=x merge=x\n*.y filter=y diff=x\n*.z filter=z\n"


def arm(folder: Path, marks: Path) -> None:
    """Set all of it in a repository that is committed; each program leaves a file of its own name in `marks`."""
    marks.mkdir(exist_ok=True)
    own = Path(git(folder, "rev-parse", "--absolute-git-dir").strip())
    hooks = marks.parent / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        for place in (hooks, own / "hooks"):
            place.mkdir(exist_ok=True)
            (place / name).write_text(f"#!/bin/sh\ntouch '{marks}/{name}'\n")
            (place / name).chmod(0o755)
    lines = [
        f'[include]\npath = {marks.parent}/included\n[core]\nhooksPath = {hooks}\n[hook "x"]\nevent = post-checkout'
    ]
    for setting in SETTINGS:
        section, _, key = setting.rpartition(".")
        section, _, name = section.partition(".")
        command = f"touch '{marks}/{setting}'; cat"
        text = f'[{section} "{name}"]' if name else f"[{section}]"
        place = "!" if section == "alias" else ""
        lines.append(f'{text}\n{key} = "{place}{command}"')
    (marks.parent / "included").write_text(lines.pop() + "\n")
    promisor = '[remote "origin"]\nurl = ssh://nowhere.invalid/x\npromisor = true\npartialclonefilter = blob:none'
    lines += [promisor, "[core]\nrepositoryformatversion = 1", "[extensions]\npartialClone = origin"]
    with (own / "config").open("a") as config:
        config.write("\n".join(lines) + "\n")
    (own / "info").mkdir(exist_ok=True)
    (own / "info" / "attributes").write_text(ATTRIBUTES)
