"""Leave out computation that does not change a BERT classifier's losses, up to rounding.

Each function is optional, because dropout draws fewer random numbers, or the model has fewer parameters, than in
transformers.
"""

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from trainkit.errors import Refusal

KNOWN = "BertForSequenceClassification"


def keep_first_token(model: Any) -> None:
    """Make the last layer compute only the first token, the only one that the classifier reads.

    Keys and values still come from all tokens, and parameters keep their names. Raises Refusal unless the model is a
    BERT with absolute positions.
    """
    name, positions = type(model).__name__, getattr(model.config, "position_embedding_type", "absolute")
    if name != KNOWN or positions != "absolute":
        raise Refusal(
            f"--last-layer first-token: the model has to be a {KNOWN} with absolute positions, and is a {name}"
            f" with {positions} ones: leave this option out"
        )
    last = model.bert.encoder.layer[-1]
    last.attention = FirstTokenAttention(last.attention)


class FirstTokenAttention(nn.Module):
    """The attention of a layer (BertAttention of transformers 4 or 5) for the first token only."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.self = attention.self
        self.output = attention.output

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, *_: object, **__: object
    ) -> tuple[Tensor, None]:
        """Return the first token [n, 1, size] from hidden states [n, longest, size], and no weights."""
        own, first = self.self, hidden_states[:, :1]
        heads = own.num_attention_heads

        def by_head(values: Tensor) -> Tensor:
            apart: Tensor = values.unflatten(-1, (heads, -1))
            return apart.transpose(1, 2)

        found = scaled_dot_product_attention(
            by_head(own.query(first)),
            by_head(own.key(hidden_states)),
            by_head(own.value(hidden_states)),
            attn_mask=None if attention_mask is None else attention_mask[:, :, :1],
            dropout_p=own.dropout.p if self.training else 0.0,
        )
        return self.output(found.transpose(1, 2).flatten(2), first), None


def keep_words(model: Any, words: Tensor) -> None:
    """Keep only these words [n] in the model's embedding; its tokens become positions in `words`.

    The other words' gradient is always zero, so Adam never changes them. (AdamW does, but no sentence reads them.)
    """
    before = model.get_input_embeddings()
    words = words.to(before.weight.device)
    padding = (words == (-1 if before.padding_idx is None else before.padding_idx)).nonzero()
    after = nn.Embedding(len(words), before.embedding_dim, padding_idx=int(padding[0]) if len(padding) else None)
    after.weight = nn.Parameter(before.weight.detach()[words].clone())
    model.set_input_embeddings(after)
    model.config.vocab_size = len(words)
