"""What a BERT that classifies need not compute: the losses are the same without it, up to rounding.

Each is an option of the programs, because it is not the model as transformers computes it: fewer random numbers are
drawn for dropout, or there are fewer parameters.
"""

from typing import Any

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from trainkit.errors import Refusal

KNOWN = "BertForSequenceClassification"


def keep_first_token(model: Any) -> None:
    """Let the last layer compute the first token alone, which is all that the classifier reads.

    Keys and values are still those of all tokens. The model's parameters and their names stay the same.

    Raises:
        Refusal: the model is no BERT with absolute positions.
    """
    name, positions = type(model).__name__, getattr(model.config, "position_embedding_type", "absolute")
    if name != KNOWN or positions != "absolute":
        raise Refusal(
            f"--last-layer first-token: this works for a {KNOWN} with absolute positions, and the model is a {name}"
            f" with {positions} ones: leave it out"
        )
    last = model.bert.encoder.layer[-1]
    last.attention = FirstTokenAttention(last.attention)


class FirstTokenAttention(nn.Module):
    """The attention of a layer for its first token; what follows it in the layer gets that token alone.

    Args:
        attention: a BertAttention of transformers, 4 or 5.
    """

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.self = attention.self
        self.output = attention.output

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, *_: object, **__: object
    ) -> tuple[Tensor, None]:
        """Return the first token [n, 1, size] of hidden states [n, longest, size], and no weights."""
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
    """Leave only these words [n] in the model's embedding; its tokens are then the places in `words`.

    Adam never changes the others: their gradient is always zero. (AdamW's decay would, but no sentence reads them.)
    """
    before = model.get_input_embeddings()
    words = words.to(before.weight.device)
    padding = (words == (-1 if before.padding_idx is None else before.padding_idx)).nonzero()
    after = nn.Embedding(len(words), before.embedding_dim, padding_idx=int(padding[0]) if len(padding) else None)
    after.weight = nn.Parameter(before.weight.detach()[words].clone())
    model.set_input_embeddings(after)
    model.config.vocab_size = len(words)
