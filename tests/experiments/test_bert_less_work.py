"""What is left out of BERT's step changes neither losses nor gradients."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers  # its parts are imported when a test asks for them: all of them take seconds

from experiments.bert.less_work import keep_first_token, keep_words

Launch = Callable[..., Any]
SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}


def made(attention: str = "sdpa") -> Any:
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(**SIZES, attn_implementation=attention)
    ).train()


def batch(*, padded: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Six sentences of up to nine tokens, their words below 50 and even, and what is no padding."""
    torch.manual_seed(1)
    tokens = 2 * torch.randint(1, 25, (6, 9))
    lengths = torch.tensor([9, 3, 5, 9, 1, 8]) if padded else torch.full((6,), 9)
    mask = (torch.arange(9) < lengths[:, None]).long()
    return tokens * mask, mask


def gradients(model: Any, tokens: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    logits = model(tokens, attention_mask=mask).logits
    torch.nn.functional.cross_entropy(logits, torch.tensor([0, 1, 1, 0, 1, 0])).backward()
    return logits.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_first_token_alone_has_the_outputs_and_gradients_of_all(attention: str, *, padded: bool) -> None:
    whole, shorter = made(attention), made(attention)
    keep_first_token(shorter)
    assert list(shorter.state_dict()) == list(whole.state_dict())
    (expected, theirs), (got, ours) = (gradients(model, *batch(padded=padded)) for model in (whole, shorter))
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-6)
    assert list(ours) == list(theirs)
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-4, atol=1e-6)


def test_words_that_are_used_have_the_outputs_and_gradients_of_all_words() -> None:
    whole, fewer = made(), made()
    tokens, mask = batch(padded=True)
    words, places = tokens.unique(return_inverse=True)
    keep_words(fewer, words)
    (expected, theirs), (got, ours) = gradients(whole, tokens, mask), gradients(fewer, places, mask)
    assert torch.equal(got, expected)
    name = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(ours[name], theirs[name][words])
    left = torch.ones(50, dtype=torch.bool)
    left[words] = False
    assert not theirs[name][left].any()
