"""A tokenizer of Hugging Face for trireme, which starts this as `python3 -c` and talks to it over its standard input and
output. A request and an answer are each a line of JSON, then raw bytes.

    answer at the start   {"vocab_size", "eos", "bos", "pad", "escapes_spaces", "files", "added"} or {"error", "kind"}
    {"encode": [bytes of each text], "spans": bool} + the texts in UTF-8
                          {"tokens": [number of each text], "unknown": [...]} + int32 tokens, + int32 begin, end (characters)
    {"decode": [tokens]}  {"bytes": n} + the text in UTF-8
"""
import sys

if sys.path and sys.path[0] == "":
    sys.path.pop(0)  # no module of the folder that trireme happens to run in

import json
import os
import signal
from array import array

USUAL = {
    "eos": ["<|endoftext|>", "</s>", "<eos>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|end|>",
            "<\uff5cend\u2581of\u2581sentence\uff5c>", "[EOS]", "[SEP]"],
    "bos": ["<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "[BOS]",
            "[CLS]"],
    "pad": ["<pad>", "[PAD]", "<|pad|>", "<\uff5c\u2581pad\u2581\uff5c>", "<|finetune_right_pad_id|>"],
}
KEPT = ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
        "chat_template.json", "generation_config.json"]


class Bad(Exception):
    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Bad("file", f"{path}: {error}")
    return content if isinstance(content, dict) else {}


def special_id(tokenizer, kind, configs):
    """What the files say, in the order in which transformers asks them; the usual names where they say nothing."""
    for config in configs[:2]:
        if f"{kind}_token" in config:
            token = config[f"{kind}_token"]
            if token is None:
                return -1
            found = tokenizer.token_to_id(token.get("content", "") if isinstance(token, dict) else str(token))
            if found is not None:
                return found
    for config in configs[2:]:
        for part in (config, config.get("text_config") or {}):
            token = part.get(f"{kind}_token_id")
            token = token[0] if isinstance(token, list) and token else token
            if isinstance(token, int) and tokenizer.id_to_token(token) is not None:
                return token
    for name in USUAL[kind]:
        found = tokenizer.token_to_id(name)
        if found is not None:
            return found
    return -1


def unknown_id(tokenizer, state):
    model = state.get("model", {})
    if isinstance(model.get("unk_id"), int):
        return model["unk_id"]
    return tokenizer.token_to_id(model["unk_token"]) if isinstance(model.get("unk_token"), str) else None


class Service:
    def __init__(self, path, eos):
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise Bad("package", str(error))
        folder = os.path.dirname(os.path.abspath(path))
        try:
            self.tokenizer = Tokenizer.from_file(path)
        except BaseException as error:  # the package raises Exception itself, and a panic of its is none
            raise Bad("file", f"not a tokenizer of Hugging Face: {' '.join(str(error).split())}")
        # A file may say that texts are cut or filled up to a length, which is meant for other uses.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        state = json.loads(self.tokenizer.to_str())
        self.unknown = unknown_id(self.tokenizer, state)
        vocabulary = self.tokenizer.get_vocab(with_added_tokens=True)
        configs = [read_json(os.path.join(folder, name)) for name in
                   ("tokenizer_config.json", "special_tokens_map.json", "generation_config.json", "config.json")]
        self.hello = {kind: special_id(self.tokenizer, kind, configs) for kind in USUAL}
        if eos:
            if self.tokenizer.token_to_id(eos) is None:
                raise Bad("eos", "has no such token")
            self.hello["eos"] = self.tokenizer.token_to_id(eos)
        escaping = [state.get(part) for part in ("normalizer", "pre_tokenizer", "decoder")]
        added = sorted((token.get("id", 0), str(token.get("content", ""))) for token in state.get("added_tokens", []))
        self.hello.update(added=[content for _, content in added], vocab_size=max(vocabulary.values(), default=-1) + 1,
                          escapes_spaces="\u2581" in json.dumps(escaping, ensure_ascii=False),
                          files=[path] + [p for p in (os.path.join(folder, name) for name in KEPT[1:])
                                          if os.path.isfile(p)])

    def encode(self, lengths, data, spans):
        texts, at = [], 0
        for length in lengths:
            texts.append(data[at:at + length].decode("utf-8"))
            at += length
        encodings = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        counts, unknown, tokens, bounds = [], [], array("i"), array("i")
        for encoding in encodings:
            ids = encoding.ids
            counts.append(len(ids))
            unknown.append(0 if self.unknown is None else ids.count(self.unknown))
            tokens.extend(ids)
            if spans:
                for begin, end in encoding.offsets:
                    bounds.append(begin)
                    bounds.append(end)
        return {"tokens": counts, "unknown": unknown}, tokens.tobytes() + bounds.tobytes()


def main():
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer

    def answer(header, payload=b""):
        sink.write(json.dumps(header).encode() + b"\n" + payload)
        sink.flush()

    try:
        service = Service(sys.argv[1], sys.argv[2])
    except Bad as error:
        answer({"error": str(error), "kind": error.kind})
        return
    answer(service.hello)
    for line in source:
        request = json.loads(line)
        try:
            if "encode" in request:
                data = source.read(sum(request["encode"]))
                answer(*service.encode(request["encode"], data, request["spans"]))
            else:
                text = service.tokenizer.decode(request["decode"], skip_special_tokens=True).encode("utf-8", "replace")
                answer({"bytes": len(text)}, text)
        except BaseException as error:
            answer({"error": f"{type(error).__name__}: {' '.join(str(error).split())}", "kind": "request"})


signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to trireme too, which then ends this
try:
    main()
except BrokenPipeError:
    pass
