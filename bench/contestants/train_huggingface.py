"""Hugging Face's MarianMT of the same size, in a hand-written loop."""

import itertools

import torch
from protocol import OPTIONS, batches, serve
from transformers import MarianConfig, MarianMTModel


def main():
    torch.set_num_threads(OPTIONS["threads"])
    torch.manual_seed(1)
    size = OPTIONS["size"]
    model = MarianMTModel(
        MarianConfig(
            vocab_size=OPTIONS["symbols"],
            d_model=size["dim"],
            encoder_layers=size["layers"],
            decoder_layers=size["layers"],
            encoder_attention_heads=size["heads"],
            decoder_attention_heads=size["heads"],
            encoder_ffn_dim=size["inner"],
            decoder_ffn_dim=size["inner"],
            dropout=size["dropout"],
            attention_dropout=0.0,
            activation_dropout=0.0,
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=0,
            eos_token_id=2,
            decoder_start_token_id=1,
            max_position_embeddings=1024,
            use_cache=False,
        )
    ).train()
    steps = torch.optim.Adam(model.parameters(), 1e-4, betas=(0.9, 0.98), eps=1e-9, fused=True)
    data = itertools.cycle(
        [{name: torch.from_numpy(array) for name, array in batch.items()} for batch in batches()]
    )

    def work():
        counted = 0
        for batch in itertools.islice(data, OPTIONS["updates"]):
            logits = model(
                input_ids=batch["source"],
                attention_mask=batch["source_mask"].long(),
                decoder_input_ids=batch["target_in"],
            ).logits
            targets = batch["target_out"].masked_fill(~batch["target_mask"], -100)
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), targets.flatten(), label_smoothing=0.1
            )
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            steps.step()
            steps.zero_grad(set_to_none=True)
            counted += int(batch["target_mask"].sum())
        return counted

    serve(work, parameters=sum(p.numel() for p in model.parameters()))


main()
