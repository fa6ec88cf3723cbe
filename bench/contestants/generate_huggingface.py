"""Hugging Face's `generate`: GPT-2's shape, weights at random, each token the best."""

import torch
from protocol import OPTIONS, serve
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    model = GPT2LMHeadModel(GPT2Config(activation_function="gelu")).eval()
    prompts = torch.randint(4, 50257, (OPTIONS["rows"], OPTIONS["prompt"]))
    count = OPTIONS["written"]

    def work():
        with torch.inference_mode():
            found = model.generate(
                input_ids=prompts,
                attention_mask=torch.ones_like(prompts),
                max_new_tokens=count,
                min_new_tokens=count,
                do_sample=False,
                pad_token_id=0,
            )
        return (found.shape[1] - prompts.shape[1]) * len(prompts)

    serve(work, parameters=sum(p.numel() for p in model.parameters()))


main()
