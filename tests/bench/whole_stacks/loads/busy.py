# SPDX-License-Identifier: Apache-2.0
"""A load for the stacks line: Python calls C calls Python again (sorting, regular expressions, JSON), on two threads."""
import json, re, threading


def nested(depth):
    if depth == 0:
        return json.loads(json.dumps({"values": [str(i * i) for i in range(60)], "text": "a b c " * 20}))
    return {"level": depth, "below": nested(depth - 1)}


def replaced(match):
    return str(sum(sorted((int(digit) for digit in match.group() * 4), key=lambda digit: -digit)))


def work():
    while True:
        text = json.dumps(nested(8), indent=1, sort_keys=True)
        re.sub(r"\d+", replaced, text)


threading.Thread(target=work, daemon=True).start()
work()
