"""Secrets are found by their form or their name, and nothing else is taken for one."""

import json
import random
import shlex
import string
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.masking import Masker
from runner.core.secrets import MASK, find_secrets, is_secret, secrets_in
from tests.support.projects import ROOT

_draw = random.Random(17)


def chance(length: int, letters: str = string.ascii_letters + string.digits) -> str:
    return "".join(_draw.choice(letters) for _ in range(length - 3)) + "aB7"


# Put together here, so that this file holds none.
BY_FORM = {
    "an AWS access key id": "AKI" + "A" + chance(16, string.ascii_uppercase).upper(),
    "a GitHub token": "gh" + "p_" + chance(36),
    "a GitLab token": "glp" + "at-" + chance(20),
    "a Hugging Face token": "h" + "f_" + chance(34),
    "an OpenAI or Anthropic key": "s" + "k-proj-" + chance(48),
    "a Slack token": "xo" + "xb-" + "123456789012-" + chance(24),
    "a Google API key": "AI" + "za" + chance(35),
    "a JSON Web Token": ".".join(["e" + "yJ" + chance(20), "e" + "yJ" + chance(40), chance(43)]),
    "a private key": "-----BEGIN RSA " + "PRIVATE KEY-----\n" + chance(64) + "\n-----END RSA " + "PRIVATE KEY-----",
}
SECRET_NAMES = "token hf_token HF_TOKEN hub-token password db_passwd client_secret apiKey api_key".split()
SECRET_NAMES += ["aws_secret_access_key", "credentials", "--password", "wandb_api_key", "private_key", "login.token"]
OTHER_NAMES = "tokens max_tokens tokenizer pad_token eos_token mask_token token_count key seed".split()
OTHER_NAMES += ["num_key_value_heads", "secretary", "passes", "password_file", "token_path", "batch_size", "monkey"]


@pytest.mark.parametrize("kind", BY_FORM)
def test_a_well_known_form_is_found_wherever_it_stands(kind: str) -> None:
    for around in ("{}", "x={} y", '{{"note": "{}"}}', "see {}, please", "+    login('{}')", "({})"):
        text = around.format(BY_FORM[kind])
        assert list(find_secrets(text))
        assert BY_FORM[kind] not in Masker().text(text)
        assert MASK in Masker().text(text)


def test_the_password_of_a_url_is_found_and_the_host_is_kept() -> None:
    url = "postgres://ada:" + "hunter2@db.example.org:5432/runs"
    assert Masker().text(f"from {url}") == f"from postgres://ada:{MASK}@db.example.org:5432/runs"
    for plain in ("http://127.0.0.1:8080/x@y", "https://example.org/a:b", "git@example.org:a/b", "http://[::1]:80/"):
        assert Masker().text(plain) == plain


def test_a_secret_is_known_by_its_name() -> None:
    for name in SECRET_NAMES:
        assert is_secret(name, "hunter2")
        assert [is_secret(name, value) for value in ("", None, True)] == [False] * 3
        assert Masker().tree({"outer": [{name: "hunter2"}]}) == {"outer": [{name: MASK}]}
    assert [name for name in OTHER_NAMES if is_secret(name, "hunter2")] == []


def test_numbers_of_tokens_and_words_of_a_vocabulary_are_no_secrets() -> None:
    args = {"token": 5, "some_token": "[PAD]", "other_token": "</s>", "password": 1234567}
    assert secrets_in(args) == {"password": ["1234567"]}


def test_what_is_assigned_in_a_text_is_masked() -> None:
    masker = Masker()
    for text in ("--hf-token abc123 --seed 1", "--hf-token=abc123 --seed 1", '{"hf_token": "abc123", "seed": 1}'):
        shown = masker.text(text, assigned=True)
        assert "abc123" not in shown
        assert "seed" in shown
    assert masker.text(r"{\"password\": \"abcdef\"}", assigned=True) == rf"{{\"password\": \"{MASK}\"}}"
    code = "token = read_token(path)\nself.password: Optional[str] = None\ntoken: str, secret: bytes\n"
    assert masker.text(code, assigned=True) == code


@given(st.text(min_size=8, max_size=60).filter(lambda text: text.strip() == text and len(set(text)) > 3))
def test_a_known_value_is_masked_however_it_is_written(value: str) -> None:
    masker = Masker([value])
    for written in (
        value,
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        repr(value),
        json.dumps(json.dumps(value)),
    ):
        assert value not in masker.text(f"before {written} after")
        assert json.dumps(value)[1:-1] not in masker.text(f"before {written} after")
    if "'" not in value:
        assert value not in masker.text(shlex.join(["run", "--name", value]))


def test_a_known_value_that_was_cut_off_is_masked() -> None:
    assert Masker(["correct-horse-battery"]).text("it was correct-hor...") == f"it was {MASK}..."


def test_a_short_value_is_masked_as_a_whole_word_only() -> None:
    assert Masker(["gpus"]).text("gpus on gpusets") == f"{MASK} on gpusets"
    assert Masker(["on"]).text("on it") == "on it"


@given(st.text(max_size=400))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    masker = Masker(["correct-horse"])
    once = masker.text(text, assigned=True)
    assert masker.text(once, assigned=True) == once


def test_no_committed_file_holds_a_secret() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("no git repository")
    names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    found, read = [], 0
    for name in names:
        text = (ROOT / name).read_bytes().decode("utf-8", "surrogateescape")
        read += len(text)
        found += [f"{name}:{text.count(chr(10), 0, start) + 1}" for start, _ in find_secrets(text)]
    assert read > 1_000_000
    assert found == []


def test_a_random_value_assigned_to_a_secrets_name_is_found_in_source() -> None:
    planted = f'config = {{"aws_secret_access_{"key"}": "{"wJalrXUtnFEMI" + "K7MDENGbPxRfiCYzEK9"}"}}'
    assert len(list(find_secrets(planted))) == 1
