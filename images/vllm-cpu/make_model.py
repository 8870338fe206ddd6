"""`python make_model.py FOLDER`: a tiny Qwen3 checkpoint without weights, for `vllm serve FOLDER --load-format dummy`.

Anybody can run the whole pod with it on a CPU: config, byte-level tokenizer and chat template are real, the text is noise.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

CONTEXT = 32_768
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHAT_TEMPLATE = (
    "{%- if tools %}<|im_start|>system\nTools: {{ tools | tojson }}<|im_end|>\n{% endif -%}"
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.content is string %}{{ message.content }}{% else %}{{ message.content | tojson }}{% endif %}<|im_end|>\n"
    "{% endfor -%}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}{% endif -%}"
)


def config(vocabulary: int) -> dict[str, object]:
    """The network: two layers, wide enough for every code path and small enough to start in seconds."""
    return {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": "bfloat16",
        "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 32, "vocab_size": vocabulary, "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-6, "rope_theta": 1e6, "tie_word_embeddings": True, "hidden_act": "silu",
        "attention_bias": False, "bos_token_id": 256, "eos_token_id": 258,
    }  # fmt: skip


def main(folder: Path) -> None:
    """Write config.json, tokenizer.json, tokenizer_config.json and generation_config.json."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({character: i for i, character in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    documents: dict[str, dict[str, object]] = {
        "config.json": config(320),
        "generation_config.json": {"bos_token_id": 256, "eos_token_id": 258},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": CONTEXT, "chat_template": CHAT_TEMPLATE,
            "eos_token": SPECIAL[2], "bos_token": SPECIAL[0], "pad_token": SPECIAL[0],
        },
    }  # fmt: skip
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"made {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
