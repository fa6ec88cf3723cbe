"""A language model's own search: the shape of a recipe, weights at random, each token the best."""

from pathlib import Path

import torch
from protocol import OPTIONS, serve

from regard.data.tokenizers import Tokenizer
from regard.decoding.continuation import Continuer
from regard.decoding.likelihood import log_probs
from regard.layers import int8
from regard.layers.allocator import bound_caches, keep_pages
from regard.model import build
from regard.recipe import config
from regard.recipe.parts import Part, module
from regard.types import Batch, Sizes


def perplexity(model, tokens):
    batch = Batch(
        tensors={"target_in": tokens[:, :-1], "target_out": tokens[:, 1:]},
        ids=tuple(range(len(tokens))),
        targets=tokens[:, 1:].numel(),
    )
    return float(torch.exp(-log_probs(model, batch, tokens.shape[1]).mean()))


def main():
    bound_caches()
    keep_pages()
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    recipe = config.load(Path(OPTIONS["recipe"]))
    symbols = recipe.task.tokenizer.vocabulary
    sizes = {"target": {"tokens": symbols, "outputs": symbols}}
    model = build(recipe.model, Sizes(sizes, writes="target")).eval()
    prompts = torch.randint(4, symbols, (OPTIONS["rows"], OPTIONS["prompt"]))
    about = {"float32": perplexity(model, prompts)}
    if OPTIONS.get("quantization") == "int8":
        int8.quantize(model)
        about["int8"] = perplexity(model, prompts)
    by = Tokenizer.__new__(Tokenizer)  # all that is asked of it are its special tokens
    by.unwritten = (by.pad, by.start, by.unknown)
    writer = Continuer(model, by, by.end, recipe.task.stream.length, True, True)
    count, rows = OPTIONS["written"], [row[1:] for row in prompts.tolist()]
    greedy = Part("greedy", module("search", "greedy").Config(min_length=count))

    def work():
        found = writer.follow(rows, range(len(rows)), greedy, count)
        return sum(len(best[0].tokens) for best in found)

    serve(work, parameters=model.size(), perplexity=about)


main()
