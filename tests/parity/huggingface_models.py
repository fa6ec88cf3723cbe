"""Small random models of the transformers library, one for each family, and tokenizers for them."""

import os
import random
from pathlib import Path
from typing import Any

import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from tokenizers import (
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

TEXT = ["the quick brown fox jumps over the lazy dog, again and again!", "größer 東京 ñandú"] * 5
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)
ROWS, LIMIT = 331, 61
"""Of the embedding, more than there are tokens; and positions."""


def byte_level(special: dict[str, str], *, opens: bool = False, pattern: str = "") -> Tokenizer:
    """As GPT-2 and GPT-NeoX have it; with `opens` and a template as RoBERTa, with a pattern as
    Qwen2."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pattern:
        made.normalizer = normalizers.NFC()
        cut = pre_tokenizers.Split(Regex(pattern), "isolated")
        bytewise = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        made.pre_tokenizer = pre_tokenizers.Sequence([cut, bytewise])
    made.decoder = decoders.ByteLevel()
    _train(made, trainers.BpeTrainer, special, pre_tokenizers.ByteLevel.alphabet())
    made.post_processor = processors.ByteLevel(trim_offsets=False)
    if opens:
        ids = [(special[name], made.token_to_id(special[name])) for name in ("start", "end")]
        single = f"{special['start']} $A" + (f" {special['end']}" if "mask" in special else "")
        made.post_processor = processors.TemplateProcessing(single=single, special_tokens=ids)
    return made


def sentence_pieces(special: dict[str, str]) -> Tokenizer:
    """As Llama has it: BPE over blanks that are written ▁, other characters as bytes."""
    made = Tokenizer(models.BPE(unk_token=special["unknown"], byte_fallback=True, fuse_unk=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    several = {**special, **{f"byte{n}": f"<0x{n:02X}>" for n in range(256)}}
    _train(made, trainers.BpeTrainer, several, [], marked=len(special))
    ids = [(special["start"], made.token_to_id(special["start"]))]
    made.post_processor = processors.TemplateProcessing(
        single=f"{special['start']} $A", special_tokens=ids
    )
    return made


def word_pieces(special: dict[str, str]) -> Tokenizer:
    """As BERT has it."""
    made = Tokenizer(models.WordPiece(unk_token=special["unknown"]))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    _train(made, trainers.WordPieceTrainer, special, [])
    ids = [(special[name], made.token_to_id(special[name])) for name in ("start", "end")]
    start, end = special["start"], special["end"]
    made.post_processor = processors.TemplateProcessing(
        single=f"{start} $A {end}", pair=f"{start} $A {end} $B:1 {end}:1", special_tokens=ids
    )
    return made


def _train(
    made: Tokenizer,
    kind: Any,
    special: dict[str, str],
    alphabet: list[str],
    marked: int | None = None,
) -> None:
    trainer = kind(
        vocab_size=ROWS - 7 if marked is None else ROWS,
        special_tokens=list(dict.fromkeys(special.values())),
        initial_alphabet=alphabet,
        show_progress=False,
    )
    made.train_from_iterator(TEXT, trainer)


PLAIN = {"start": "<s>", "end": "</s>", "unknown": "<unk>", "pad": "<pad>"}
BRACKETS = {
    "pad": "[PAD]",
    "unknown": "[UNK]",
    "start": "[CLS]",
    "end": "[SEP]",
    "mask": "[MASK]",
}
SIZES = {"hidden_size": 36, "num_hidden_layers": 2, "num_attention_heads": 6, "vocab_size": ROWS}
WIDE: dict[str, Any] = {"max_position_embeddings": LIMIT, "intermediate_size": 47, **SIZES}


def gpt2(**options: Any) -> tuple[Any, Tokenizer]:
    import transformers

    tokenizer = byte_level({"end": "<|endoftext|>"})
    end = tokenizer.token_to_id("<|endoftext|>")
    config = transformers.GPT2Config(
        vocab_size=ROWS, n_positions=LIMIT, n_embd=36, n_layer=2, n_head=6,
        bos_token_id=end, eos_token_id=end, **options,
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config), tokenizer


def gpt_neox(**options: Any) -> tuple[Any, Tokenizer]:
    import transformers

    tokenizer = byte_level({"end": "<|endoftext|>", "pad": "<|padding|>"})
    end = tokenizer.token_to_id("<|endoftext|>")
    given = {"rotary_pct": 0.67, "bos_token_id": end, "eos_token_id": end} | options
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**WIDE | given)), tokenizer


def llama(**options: Any) -> tuple[Any, Tokenizer]:
    import transformers

    tokenizer = sentence_pieces({name: PLAIN[name] for name in ("unknown", "start", "end")})
    start, end = map(tokenizer.token_to_id, ("<s>", "</s>"))
    given = {"num_key_value_heads": 2, "bos_token_id": start, "eos_token_id": end} | options
    rows = tokenizer.get_vocab_size()
    config = transformers.LlamaConfig(**WIDE | {"vocab_size": rows} | given)
    return transformers.LlamaForCausalLM(config), tokenizer


def qwen2(**options: Any) -> tuple[Any, Tokenizer]:
    import transformers

    tokenizer = byte_level({"end": "<|endoftext|>", "other": "<|im_end|>"}, pattern=QWEN2)
    end = tokenizer.token_to_id("<|endoftext|>")
    given = {"num_key_value_heads": 3, "bos_token_id": None, "eos_token_id": end} | options
    return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**WIDE | given)), tokenizer


def bert(**options: Any) -> tuple[Any, Tokenizer]:
    import transformers

    config = transformers.BertConfig(**WIDE | options)
    return transformers.BertForMaskedLM(config), word_pieces(BRACKETS)


def distilbert(**options: Any) -> tuple[Any, Tokenizer]:
    import transformers

    config = transformers.DistilBertConfig(
        vocab_size=ROWS, max_position_embeddings=LIMIT, dim=36, n_layers=2, n_heads=6,
        hidden_dim=47, **options,
    )  # fmt: skip
    return transformers.DistilBertForMaskedLM(config), word_pieces(BRACKETS)


def roberta(**options: Any) -> tuple[Any, Tokenizer]:
    import transformers

    special = {
        "start": "<s>",
        "pad": "<pad>",
        "end": "</s>",
        "unknown": "<unk>",
        "mask": "<mask>",
    }
    tokenizer = byte_level(special, opens=True)
    ids = {"bos_token_id": "<s>", "eos_token_id": "</s>", "pad_token_id": "<pad>"}
    given = {key: tokenizer.token_to_id(name) for key, name in ids.items()}
    config = transformers.RobertaConfig(
        **WIDE | given | {"type_vocab_size": 1, "max_position_embeddings": LIMIT + 2} | options
    )
    return transformers.RobertaForMaskedLM(config), tokenizer


def marian(**options: Any) -> tuple[Any, Tokenizer]:
    """With a tokenizer of words for both sides."""
    import transformers

    words = [PLAIN["end"], PLAIN["unknown"], *sorted({*" ".join(TEXT).split()}), PLAIN["pad"]]
    numbers = {word: n for n, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=PLAIN["unknown"]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    pad = len(words) - 1
    given = {"pad_token_id": pad, "decoder_start_token_id": pad, "eos_token_id": 0} | options
    sides = ("encoder", "decoder")
    sizes = {"layers": 2, "attention_heads": 6, "ffn_dim": 47}
    shape = {f"{side}_{key}": size for side in sides for key, size in sizes.items()}
    config = transformers.MarianConfig(
        vocab_size=len(words), d_model=36, max_position_embeddings=LIMIT, num_beams=2,
        forced_eos_token_id=None, bad_words_ids=[[pad]], **shape, **given,
    )  # fmt: skip
    return transformers.MarianMTModel(config), tokenizer


WRITERS = {"gpt2": gpt2, "gpt_neox": gpt_neox, "llama": llama, "qwen2": qwen2}
FILLERS = {"bert": bert, "distilbert": distilbert, "roberta": roberta}
TRANSLATORS = {"marian": marian}
FAMILIES = WRITERS | FILLERS | TRANSLATORS
NAMES = {"start": "bos_token", "end": "eos_token", "unknown": "unk_token", "pad": "pad_token"}
FRAMES = {
    "[CLS]": "cls_token",
    "[SEP]": "sep_token",
    "[MASK]": "mask_token",
    "<mask>": "mask_token",
}


def drawn(model: Any, std: float = 0.3) -> Any:
    """The model with every weight drawn, biases and norms too."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            norm = "norm" in name.lower() or "ln_" in name
            parameter.normal_(mean=float(norm and name.endswith("weight")), std=std)
    return model.eval()


def saved(model: Any, tokenizer: Tokenizer, folder: Path) -> Any:
    """Write both as `save_pretrained` does; gives the tokenizer of the library."""
    import transformers

    there = tokenizer.get_vocab()
    usual = {name: piece for name, piece in PLAIN.items() if piece in there}
    marks = {NAMES[name]: piece for name, piece in usual.items()}
    marks |= {name: piece for piece, name in FRAMES.items() if piece in there}
    marks |= {"unk_token": "[UNK]", "pad_token": "[PAD]"} if "[UNK]" in there else {}
    marks |= {"eos_token": "<|endoftext|>"} if "<|endoftext|>" in there else {}
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks)
    model.save_pretrained(folder)
    fast.save_pretrained(folder)
    return fast


def strange(count: int) -> list[str]:
    """Texts that nobody writes: emoji, combining marks, NUL, from right to left, very long."""
    chance = random.Random(3)
    odd = [
        "\0",
        "\u200d",
        "\ufeff",
        "👩‍👩‍👧",
        "e\u0301\u0302",
        "שלום",
        "مرحبا",
        "\u202e",
        "ﬁ",
        "Ａ",
        " ",
        "\t",
    ]
    odd += [
        "\r\n",
        "  ",
        "'s",
        "don't",
        "<s>",
        "[MASK]",
        "<|endoftext|>",
        "▁",
        "##ing",
        "123",
        "ß",
        "İ",
    ]
    ranges = [(32, 127), (0xA0, 0x250), (0x300, 0x370), (0x590, 0x700), (0x4E00, 0x9FFF)]
    ranges += [(0x1F300, 0x1FAFF), (0xE000, 0xF8FF), (1, 32)]

    def piece() -> str:
        if chance.random() < 0.4:
            return chance.choice(odd)
        return chr(chance.randint(*chance.choice(ranges)))

    texts = ["".join(piece() for _ in range(chance.randint(0, 40))) for _ in range(count - 3)]
    return [*texts, "", "x" * 100_000, "a b " * 20_000]
