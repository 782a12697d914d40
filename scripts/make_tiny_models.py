"""Train tiny checkpoints for a real vLLM on the CPU, from the Python standard library's source.

    target       a Llama of 5 million parameters
    target-deep  the same function at a much higher cost per step, so that speculation can pay
    draft        a smaller Llama with the same tokenizer
    eagle        an EAGLE-1 head for target and target-deep
    eagle3       an EAGLE-3 head for target and target-deep

Run it in the vLLM environment: "$SPECBENCH_VLLM_PYTHON" scripts/make_tiny_models.py models
It takes some minutes at full scale. Progress goes to stderr, and one line to evaluate to stdout.
"""

# specbench's own environment, in which types are checked, has none of these libraries.
# mypy: disable-error-code="import-not-found", allow-subclassing-any

from __future__ import annotations

import argparse
import copy
import json
import random
import shlex
import sys
import sysconfig
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm
from transformers.optimization import get_cosine_schedule_with_warmup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Loss = Callable[[Tensor], Tensor]

CORPUS_CHARS = 250_000
LARGEST_FILE_CHARS = 80_000  # one long module would be most of the corpus
CORPUS_SEED = 0
EXCHANGE_LINES = 24
PROMPT_LINES = 10  # the rest of an exchange answers them

VOCABULARY = 4096
DRAFT_VOCABULARY = 2048
CONTEXT_TOKENS = 2048
SPECIAL_TOKENS = ["<|pad|>", "<|bos|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
PAD, BOS, END, *ROLES = SPECIAL_TOKENS
INSTRUCTION = "Continue this Python code:\n"
CHAT_TEMPLATE = (
    "{{ '<|bos|>' }}{% for m in messages %}"
    "{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)

HEAD_DIM = 64  # vLLM's CPU attention knows only a few sizes; this is one
EXTRA_LAYERS = 28
# Named because vLLM's default choice repeats a layer on a target this shallow, and then refuses.
AUXILIARY_LAYERS = [1, 2, 3]

HEAD_KEYS = (  # what a head's config.json takes from the target's
    "vocab_size hidden_size num_attention_heads num_key_value_heads head_dim intermediate_size "
    "max_position_embeddings rms_norm_eps hidden_act bos_token_id eos_token_id pad_token_id "
    "rope_parameters"
)

BATCH = 8
LONGEST_DRAFT = 2  # how many tokens ahead a head learns to guess
STEPS_PER_REPORT = 25


@dataclass(frozen=True)
class Recipe:
    """How one checkpoint is trained; the seed fixes its first weights and its batches."""

    name: str
    seed: int
    steps: int
    window_tokens: int
    peak_rate: float

    def scaled(self, scale: float) -> Recipe:
        """Give the same recipe with more or fewer steps."""
        return replace(self, steps=max(2, int(self.steps * scale)))


TARGET = Recipe("target", 1, 300, window_tokens=256, peak_rate=1.5e-3)
DRAFT = Recipe("draft", 2, 300, window_tokens=256, peak_rate=4e-3)
EAGLE = Recipe("eagle", 3, 120, window_tokens=192, peak_rate=2e-3)
EAGLE3 = Recipe("eagle3", 4, 120, window_tokens=192, peak_rate=2e-3)


def read_corpus() -> list[str]:
    """Give the text of some standard library modules, the same ones on each run."""
    library = Path(sysconfig.get_paths()["stdlib"])
    texts = [file.read_text("utf-8", "replace") for file in sorted(library.glob("*.py"))]
    texts = [text for text in texts if len(text) <= LARGEST_FILE_CHARS]
    random.Random(CORPUS_SEED).shuffle(texts)  # noqa: S311 - repeatable, not secret
    totals = accumulate(map(len, texts))
    return [text for text, total in zip(texts, totals, strict=True) if total <= CORPUS_CHARS]


def split_exchanges(text: str) -> Iterator[tuple[str, str]]:
    """Cut a module into pairs of code and the code that follows it."""
    lines = text.splitlines(keepends=True)
    for start in range(0, len(lines) - EXCHANGE_LINES + 1, EXCHANGE_LINES):
        cut, end = start + PROMPT_LINES, start + EXCHANGE_LINES
        yield "".join(lines[start:cut]), "".join(lines[cut:end])


def train_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Learn the byte-level BPE vocabulary that target and draft share."""
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*texts, INSTRUCTION], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=ROLES,
        model_max_length=CONTEXT_TOKENS,
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
    )


def token_stream(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> Tensor:
    """Give the corpus as one row of tokens, one chat after the other."""
    exchanges = [exchange for text in texts for exchange in split_exchanges(text)]
    random.Random(CORPUS_SEED).shuffle(exchanges)  # noqa: S311 - repeatable, not secret
    tokens: list[int] = []
    for prompt, continuation in exchanges:
        asked = {"role": "user", "content": INSTRUCTION + prompt}
        answered = {"role": "assistant", "content": continuation}
        tokens += tokenizer.apply_chat_template([asked, answered])["input_ids"]
    return torch.tensor(tokens)


def sample_windows(stream: Tensor, recipe: Recipe) -> Iterator[Tensor]:
    """Give one batch of windows a step; a window has one token more, to be predicted."""
    generator = torch.Generator().manual_seed(recipe.seed)
    length = recipe.window_tokens + 1
    for _ in range(recipe.steps):
        starts = torch.randint(len(stream) - length, (BATCH,), generator=generator)
        yield torch.stack([stream[start : start + length] for start in starts.tolist()])


def train(recipe: Recipe, model: nn.Module, stream: Tensor, loss_of: Loss) -> None:
    """Minimise the loss of the recipe's windows over the model's free parameters."""
    optimizer = torch.optim.AdamW(model.parameters(), recipe.peak_rate, betas=(0.9, 0.95))
    schedule = get_cosine_schedule_with_warmup(optimizer, recipe.steps // 20, recipe.steps)
    for step, windows in enumerate(sample_windows(stream, recipe), start=1):
        loss = loss_of(windows)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % STEPS_PER_REPORT == 0 or step == recipe.steps:
            print(f"{recipe.name} {step}/{recipe.steps} loss {loss.item():.3f}", file=sys.stderr)


def llama_config(hidden: int, layers: int) -> LlamaConfig:
    """Give the configuration that transformers and vLLM read."""
    return LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // HEAD_DIM,
        num_key_value_heads=hidden // HEAD_DIM // 2,
        head_dim=HEAD_DIM,
        intermediate_size=hidden * 11 // 4,
        max_position_embeddings=CONTEXT_TOKENS,
        rms_norm_eps=1e-5,
        tie_word_embeddings=False,
        pad_token_id=SPECIAL_TOKENS.index(PAD),
        bos_token_id=SPECIAL_TOKENS.index(BOS),
        eos_token_id=SPECIAL_TOKENS.index(END),
    )


def train_llama(recipe: Recipe, config: LlamaConfig, stream: Tensor) -> LlamaForCausalLM:
    """Train a language model from nothing."""
    torch.manual_seed(recipe.seed)
    model = LlamaForCausalLM(config)
    train(recipe, model, stream, lambda windows: model(windows, labels=windows).loss)
    return model


def save_llama(model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write a checkpoint in bfloat16; the model itself is rounded by it."""
    model.to(torch.bfloat16)
    model.config.dtype = torch.bfloat16
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def deepen(target: LlamaForCausalLM) -> LlamaForCausalLM:
    """Append layers that add exactly zero.

    A step then costs several times more while the greedy outputs, and so the acceptance of each
    draft, stay what they were. On the shallow target no draft is cheap enough to pay off.
    """
    config = copy.deepcopy(target.config)
    config.num_hidden_layers += EXTRA_LAYERS
    deep = LlamaForCausalLM(config)
    for layer in deep.model.layers[-EXTRA_LAYERS:]:
        nn.init.zeros_(layer.self_attn.o_proj.weight)
        nn.init.zeros_(layer.mlp.down_proj.weight)
    deep.load_state_dict(deep.state_dict() | target.state_dict())
    return deep


# vLLM looks for the tensors by the names that the attributes of the two heads have.
class Eagle(nn.Module):
    """An EAGLE-1 head: guesses the target's next final hidden state."""

    settings: ClassVar[dict[str, Any]] = {"architectures": ["LlamaForCausalLM"]}
    borrowed = "lm_head.weight"  # vLLM takes this tensor from the target
    kept = slice(None)
    judged_by_features = True  # the target's own lm_head must be able to read the guess

    def __init__(self, target: LlamaForCausalLM) -> None:
        super().__init__()
        width = target.config.hidden_size
        self.embed_tokens = target.model.embed_tokens
        self.fc = nn.Linear(2 * width, width, bias=False)
        layer = LlamaDecoderLayer(target.config, layer_idx=0)
        layer.input_layernorm = nn.Identity()  # vLLM's EAGLE-1 layer has no norm here
        self.layers = nn.ModuleList([layer])
        self.lm_head = target.lm_head

    def features(self, seen: Any) -> Any:
        """Give what the head knows of each token that the target has seen."""
        return seen.last_hidden_state

    def forward(self, tokens: Tensor, known: Tensor, rotary: Any) -> tuple[Tensor, Tensor]:
        """Give the logits after each token, and the features that the next guess starts from."""
        fused = self.fc(torch.cat([self.embed_tokens(tokens), known], -1))
        guess = self.layers[0](fused, position_embeddings=rotary)
        return self.lm_head(guess), guess


class Eagle3Layer(LlamaDecoderLayer):
    """A Llama layer whose attention reads the token's embedding beside the hidden state."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__(config, layer_idx=0)
        width = config.hidden_size
        self.hidden_norm = LlamaRMSNorm(width, config.rms_norm_eps)
        for name in ("q_proj", "k_proj", "v_proj"):
            outputs = getattr(self.self_attn, name).out_features
            setattr(self.self_attn, name, nn.Linear(2 * width, outputs, bias=False))

    def forward(self, embedded: Tensor, hidden: Tensor, rotary: Any) -> Tensor:
        """Give the next hidden states."""
        pair = torch.cat([self.input_layernorm(embedded), self.hidden_norm(hidden)], -1)
        attended, _ = self.self_attn(pair, position_embeddings=rotary)
        hidden = hidden + attended
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class Eagle3(nn.Module):
    """An EAGLE-3 head: guesses the tokens of a reduced vocabulary from several target layers."""

    settings: ClassVar[dict[str, Any]] = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "draft_vocab_size": DRAFT_VOCABULARY,
        "eagle_config": {
            "use_aux_hidden_state": True,
            "eagle_aux_hidden_state_layer_ids": AUXILIARY_LAYERS,
        },
    }
    borrowed = "embed_tokens.weight"
    judged_by_features = False

    def __init__(self, target: LlamaForCausalLM, kept: Tensor) -> None:
        super().__init__()
        width = target.config.hidden_size
        self.kept = kept
        self.register_buffer("d2t", kept - torch.arange(len(kept)))
        self.register_buffer("t2d", torch.isin(torch.arange(VOCABULARY), kept))
        self.embed_tokens = target.model.embed_tokens
        self.fc = nn.Linear(len(AUXILIARY_LAYERS) * width, width, bias=False)
        self.midlayer = Eagle3Layer(target.config)
        self.norm = LlamaRMSNorm(width, target.config.rms_norm_eps)
        self.lm_head = nn.Linear(width, len(kept), bias=False)

    def features(self, seen: Any) -> Any:
        """Give what the head knows of each token that the target has seen."""
        return self.fc(torch.cat([seen.hidden_states[layer] for layer in AUXILIARY_LAYERS], -1))

    def forward(self, tokens: Tensor, known: Tensor, rotary: Any) -> tuple[Tensor, Tensor]:
        """Give the logits after each token, and the features that the next guess starts from."""
        hidden = self.midlayer(self.embed_tokens(tokens), known, rotary)
        return self.lm_head(self.norm(hidden)), hidden


def draft_loss(head: Eagle | Eagle3, target: LlamaForCausalLM, windows: Tensor) -> Tensor:
    """Compare the head's guesses with the target's, within the head's vocabulary."""
    seen = target.model(windows, output_hidden_states=True)
    logits = target.lm_head(seen.last_hidden_state[:, 1:])
    teacher = functional.log_softmax(logits[..., head.kept], -1)
    features = head.features(seen)
    truth, known = features[:, 1:], features[:, :-1]
    rotary = target.model.rotary_emb(truth, torch.arange(truth.shape[1])[None])
    loss = torch.zeros(())
    for depth in range(LONGEST_DRAFT):
        logits, guess = head(windows[:, 1:], known, rotary)
        student = functional.log_softmax(logits, -1)
        divergence = functional.kl_div(student, teacher, log_target=True, reduction="none").sum(-1)
        loss = loss + divergence[:, depth:].mean()
        if head.judged_by_features:
            loss = loss + functional.smooth_l1_loss(guess[:, depth:], truth[:, depth:])
        # While drafting the head sees only its own guesses, so it must learn from them too.
        known = torch.cat([features[:, :1], guess[:, :-1]], 1)
    return loss


def save_head(head: Eagle | Eagle3, target: LlamaConfig, folder: Path) -> None:
    """Write a head by hand, as transformers has no class for one."""
    folder.mkdir(exist_ok=True)
    tensors = {
        name: tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor
        for name, tensor in head.state_dict().items()
        if name != head.borrowed
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    inherited = target.to_dict()
    config = {
        "model_type": "llama",
        **{key: inherited[key] for key in HEAD_KEYS.split()},
        "num_hidden_layers": 1,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        **head.settings,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")


def make_heads(out: Path, target: LlamaForCausalLM, stream: Tensor, scale: float) -> None:
    """Train and write both heads; the EAGLE-3 head keeps the most frequent tokens."""
    counts = torch.bincount(stream, minlength=VOCABULARY)
    kept = counts.topk(DRAFT_VOCABULARY).indices.sort().values
    for recipe, build in ((EAGLE, partial(Eagle, target)), (EAGLE3, partial(Eagle3, target, kept))):
        torch.manual_seed(recipe.seed)
        head = build()
        train(recipe.scaled(scale), head, stream, partial(draft_loss, head, target))
        save_head(head, target.config, out / recipe.name)


def make_models(out: Path, scale: float) -> None:
    """Train and write all checkpoints."""
    texts = read_corpus()
    tokenizer = train_tokenizer(texts)
    stream = token_stream(tokenizer, texts)
    for recipe, config in ((TARGET, llama_config(256, 4)), (DRAFT, llama_config(128, 2))):
        model = train_llama(recipe.scaled(scale), config, stream)
        save_llama(model, tokenizer, out / recipe.name)
    # Read back, so that the heads learn from the rounded weights that vLLM serves.
    target = LlamaForCausalLM.from_pretrained(out / TARGET.name, dtype=torch.float32)
    target.requires_grad_(requires_grad=False)
    make_heads(out, target, stream, scale)
    save_llama(deepen(target), tokenizer, out / "target-deep")


def main() -> None:
    """Read the command line, make the models and say how specbench finds them."""
    parser = argparse.ArgumentParser(description="Train tiny checkpoints for vLLM on the CPU.")
    parser.add_argument("out", metavar="OUT", type=Path, help="folder of the checkpoints")
    scale_help = "multiplies the steps: 0.1 is quick and trains poor drafts (default: 1.0)"
    parser.add_argument("--scale", type=float, default=1.0, help=scale_help)
    arguments = parser.parse_args()
    # One thread gives the same weights on any number of cores. On a busy machine more are slower
    # too, because OpenMP threads spin while they wait for one another.
    torch.set_num_threads(1)
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    make_models(out, arguments.scale)
    print(f"export SPECBENCH_MODELS={shlex.quote(str(out))}")


if __name__ == "__main__":
    main()
