"""The generated model of the CPU recipe, read by the libraries of a real engine environment."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.integration.parts import ROOT, engine_absent, engine_parts

RELEASE = "0.27.1"
QUESTION = """
import json, sys
from transformers import AutoConfig, AutoTokenizer
folder = sys.argv[1]
tokenizer, config = AutoTokenizer.from_pretrained(folder), AutoConfig.from_pretrained(folder)
text = "caf\\u00e9 \\u4f60\\u597d {}\\n"
messages = [{"role": "user", "content": "hi"}]
print(json.dumps({
    "round_trip": tokenizer.decode(tokenizer.encode(text)) == text,
    "fits": len(tokenizer) <= config.vocab_size,
    "end": tokenizer.eos_token_id == config.eos_token_id,
    "prompt": tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True),
}))
"""


@pytest.mark.real_engine
@pytest.mark.skipif(engine_parts(RELEASE) is None, reason=engine_absent(RELEASE))
def test_transformers_reads_the_generated_model(tmp_path: Path) -> None:
    parts = engine_parts(RELEASE)
    assert parts is not None
    subprocess.run([str(parts.python), str(ROOT / "images/vllm-cpu/make_model.py"), str(tmp_path / "model")], check=True, env=parts.env(), timeout=300)
    asked = subprocess.run([str(parts.python), "-c", QUESTION, str(tmp_path / "model")], check=True, env=parts.env(), capture_output=True, text=True, timeout=300)
    answer = json.loads(asked.stdout.splitlines()[-1])
    assert answer == {"round_trip": True, "fits": True, "end": True, "prompt": "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"}
