"""Secrets are recognized by name, refused as arguments, and masked if in the environment."""

import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.core.errors import RequestError
from runner.core.secrets import MASK, is_secret, mask_text, refuse, refuse_args, refuse_script

VALUE = "hunter2-hunter2"
NAMES = "token hf_token HF_TOKEN --hf-token hfToken hub-token password PGPASSWORD client_secret passphrase apiKey"
NAMES += " API_KEY --api_key APIKEY aws_secret_access_key private_key login.token"
OTHER = "tokens --max-tokens --tokenizer-name pad_token padToken EOS_TOKEN mask_token --sort-key num_key_value_heads"
OTHER += " secretary password_file token_path batch_size monkey key"


def test_a_secret_is_known_by_its_name_and_is_no_number_and_not_short() -> None:
    assert [name for name in NAMES.split() if not is_secret(name, VALUE)] == []
    assert [name for name in OTHER.split() if is_secret(name, VALUE)] == []
    values = ("", None, True, 12345678, "12345678", "1e-300000", "short", MASK)
    assert [value for value in values if is_secret("token", value)] == []


@pytest.mark.parametrize(
    "words",
    [
        ["--hf-token", VALUE],
        ["--set", f"hf_token={VALUE}"],
        [f"+model.hf_token={VALUE}"],
        ["--url", f"https://ada:{VALUE}@example.org"],
    ],
)
def test_an_argument_is_refused_by_its_name_and_its_value_is_not_shown(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_PASSWORD", VALUE if "--url" in words else "another one")
    with pytest.raises(RequestError, match="environment") as refused:
        refuse(words)
    assert VALUE not in str(refused.value)
    assert ("hf" in str(refused.value)) != ("SOME_PASSWORD" in str(refused.value))


def test_what_is_no_secret_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", VALUE)
    refuse(["--tokenizer-name", "bert-base-uncased", "--token", "--verbose-output", "--hf-token=", "--token"])
    refuse_args({"tokenizer_name": "bert-base-uncased", "token": 12345678, "eos_token": "<|endoftext|>"})
    with pytest.raises(RequestError, match="api_key"):
        refuse_args({"hub": [{"api_key": VALUE}]})
    with pytest.raises(RequestError, match="--hf-token"):
        refuse_args({"--": ["--hf-token", VALUE]})


def test_a_script_may_name_a_variable_or_set_it_and_give_no_secret_as_an_argument() -> None:
    refuse_script(f"# --token {VALUE}\nexport HF_TOKEN={VALUE}\n")
    refuse_script(f'HF_TOKEN={VALUE} srun train.py --hf-token "$HF_TOKEN" \\\n  --seed 1')
    refuse_script('echo "open\n')
    with pytest.raises(RequestError, match="--hf-token"):
        refuse_script(f"srun train.py \\\n  --hf-token {VALUE}\n")


@given(st.text(st.characters(codec="utf-8"), min_size=8, max_size=60).filter(lambda text: len(set(text)) > 4))
def test_a_secret_of_the_environment_is_masked_however_it_is_written(value: str) -> None:
    value = "x" + value.replace("\0", "").replace("\n", "").replace("\r", "") + "y"
    lines = [line for line in value.splitlines() if len(line) >= 8]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_TOKEN", value)
        for line in lines:
            written = json.dumps(line)
            more = (
                json.dumps(line, ensure_ascii=False),
                json.dumps(written),
                repr(line),
                repr(line.encode()),
                quote(line),
            )
            shown = mask_text(" after ".join([line, written, *more]))
            assert line not in shown
            assert written[1:-1] not in shown
            assert shown.count(MASK) >= 7


def test_parts_of_secrets_are_masked_and_a_secret_that_begins_with_another_one_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("A_TOKEN", "correct-horse")
    monkeypatch.setenv("B_TOKEN", "correct-horse-battery")
    monkeypatch.setenv("DEPLOY_PRIVATE_KEY", "BEGIN KEY\nabcdefghijkl\nmnopqrstuvwx\nEND KEY")
    for text in (
        "correct-horse-battery, correct-horse",
        "correct-hor..., correct-...",
        "correct-horse-bat..., correct-horse...",
        "abcdefghijkl, mnopqrstuvwx",
    ):
        assert mask_text(text).replace("...", "") == f"{MASK}, {MASK}"
    assert mask_text(f"token = {VALUE}") == f"token = {VALUE}"
