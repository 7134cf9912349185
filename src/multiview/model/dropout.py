"""Dropout of hidden states and of attention weights, set separately."""

from torch import nn

from multiview.errors import InputError


def set_dropout(model: nn.Module, hidden: float, attention: float | None = None) -> bool:
    """Sets the dropout of hidden states to `hidden`, and of attention weights to `attention`, by default `hidden` too.

    Returns whether the model drops hidden states anywhere: bases such as Qwen3 and Gemma 3 do not. Raises InputError
    where `attention` differs from `hidden` and the base model's attention dropout is not found.
    """
    dropouts = [module for module in model.modules() if isinstance(module, nn.Dropout)]
    for module in dropouts:
        module.p = hidden
    found = [_set_attention_dropout(m, hidden if attention is None else attention) for m in attentions(model)]
    if attention not in (None, hidden) and not (found and all(found)):
        raise InputError(
            "train.attention_dropout: the base model does not tell its attention dropout; leave it out"
        )
    return bool(dropouts)


def attentions(model: nn.Module) -> list[nn.Module]:
    """The modules that weigh tokens by attention: the innermost ones called "…Attention", since `BertAttention` holds
    both `BertSelfAttention` and a dropout of hidden states."""
    return [m for m in model.modules() if _is_attention(m) and not any(map(_is_attention, m.children()))]


def _is_attention(module: nn.Module) -> bool:
    return type(module).__name__.endswith("Attention")


def _set_attention_dropout(module: nn.Module, share: float) -> bool:
    """Sets one module's dropout, which transformers' models hold as a module or as a number; says whether it has one."""
    name = "attention_dropout" if hasattr(module, "attention_dropout") else "dropout"
    dropout = getattr(module, name, None)
    if isinstance(dropout, nn.Dropout):
        dropout.p = share
    elif isinstance(dropout, float | int):
        setattr(module, name, share)
    else:
        return False
    return True
