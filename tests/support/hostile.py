"""A git repository in which every setting that can run a command leaves a file behind."""

from pathlib import Path

from tests.support.repository import git

HOOKS = "post-checkout post-index-change reference-transaction pre-auto-gc fsmonitor-watchman".split()
SETTINGS = """
filter.x.clean filter.x.smudge core.fsmonitor diff.x.textconv diff.x.command diff.external core.sshCommand core.pager
pager.status pager.diff pager.config core.editor core.askPass core.alternateRefsCommand gpg.program credential.helper
sequence.editor remote.origin.uploadpack alias.status alias.diff alias.ls-files merge.x.driver interactive.diffFilter
core.gitProxy hook.x.command uploadpack.packObjectsHook trailer.x.command filter.y.process filter.z.clean
""".split()
"""git settings whose value is a command."""
ATTRIBUTES = "* filter=x diff=x merge=x\n*.y filter=y diff=x\n*.z filter=z\n"


def arm(folder: Path, marks: Path) -> None:
    """Set all hooks and settings of a repository; each creates a file with its name in `marks`."""
    own, hooks = Path(git(folder, "rev-parse", "--absolute-git-dir").strip()), marks.parent / "hooks"
    for place in (marks, hooks, own / "hooks", own / "info"):
        place.mkdir(exist_ok=True)
    for name in HOOKS:
        for place in (hooks, own / "hooks"):
            (place / name).write_text(f"#!/bin/sh\ntouch '{marks}/{name}'\n")
            (place / name).chmod(0o755)
    included = f"{marks.parent}/included"
    lines = [f'[include]\npath = {included}\n[core]\nhooksPath = {hooks}\n[hook "x"]\nevent = post-checkout']
    for setting in SETTINGS:
        section, _, key = setting.rpartition(".")
        section, _, name = section.partition(".")
        text = f'[{section} "{name}"]' if name else f"[{section}]"
        shell = "!" if section == "alias" else ""
        lines.append(f"{text}\n{key} = \"{shell}touch '{marks}/{setting}'; cat\"")
    Path(included).write_text(lines.pop() + "\n")
    promisor = '[remote "origin"]\nurl = ssh://nowhere.invalid/x\npromisor = true\npartialclonefilter = blob:none'
    lines += [promisor, "[core]\nrepositoryformatversion = 1", "[extensions]\npartialClone = origin"]
    with (own / "config").open("a") as config:
        config.write("\n".join(lines) + "\n")
    (own / "info/attributes").write_text(ATTRIBUTES)
