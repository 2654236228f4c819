#!/usr/bin/env python3
"""A model of the filters of webhooks, written independently of the module.

Prints random payloads, random filters, and for each filter the payloads that it matches, as JSON:
{"payloads": [...], "filters": [[filter, [true, false, ...]], ...]}. Arguments: a seed, the number
of payloads and the number of filters. Arrays in payloads are nested once at most.
"""

import json
import random
import sys
from decimal import Decimal

MISSING = object()
WORDS = ["", "a", "ab", "abc", "b.c", "x\ny", "ü", "aü", "$", "(a", "a)", 'q"', "\\", "*", "Ab", "a b"]
NUMBERS = [0, 1, -1, 2, 2.5, -0.25, 100, 1000000, 9007199254740993]
KEYS = ["a", "b", "c", 'k"y', "d e"]


def items(value):
    if not isinstance(value, list):
        return [value]
    return [inner for item in value for inner in items(item)]


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_scalar(value):
    return not isinstance(value, (dict, list)) and value is not MISSING


def exact(number):
    return Decimal(number) if isinstance(number, int) else Decimal(repr(number))


def same(left, right):
    if is_number(left) and is_number(right):
        return exact(left) == exact(right)
    return type(left) is type(right) and left == right


def equal(left, right):
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return is_scalar(left) and is_scalar(right) and same(left, right)


def compare(value, sign, bound):
    if is_number(value) and is_number(bound):
        value, bound = exact(value), exact(bound)
    elif not (isinstance(value, str) and isinstance(bound, str)):
        return False
    return {"$gt": value > bound, "$gte": value >= bound, "$lt": value < bound,
            "$lte": value <= bound}[sign]


def contained(value, choice):
    """Returns the result of $in. None: the types do not fit, so $nin does not match either."""
    if isinstance(choice, list):
        return any(same(value, item) for item in choice) if is_scalar(value) else None
    if isinstance(value, list):
        return any(is_scalar(item) and same(item, choice) for item in items(value))
    if isinstance(value, str) and isinstance(choice, str):
        return choice in value
    return None


def operator(value, name, arg):
    if name == "$or":
        return any(matches(value, condition) for condition in arg)
    if name == "$and":
        return all(matches(value, condition) for condition in arg)
    if name == "$not":
        return not matches(value, arg)
    if name == "$exist":
        return (value is not MISSING) == arg
    if value is MISSING:
        return False
    if name == "$eq":
        return equal(value, arg)
    if name == "$neq":
        return not equal(value, arg)
    if name == "$in":
        return contained(value, arg) is True
    if name == "$nin":
        return contained(value, arg) is False
    if name in ("$startsWith", "$endsWith"):
        test = str.startswith if name == "$startsWith" else str.endswith
        return isinstance(value, str) and any(
            test(value, text) for text in (arg if isinstance(arg, list) else [arg]))
    return compare(value, name, arg)


def matches(value, condition):
    if isinstance(condition, dict):
        names = [key for key in condition if key.startswith("$")]
        members = {key: c for key, c in condition.items() if not key.startswith("$")}
        if not all(operator(value, name, condition[name]) for name in names):
            return False
        if names and not members:
            return True
        return any(isinstance(item, dict) and all(matches(item.get(key, MISSING), c)
                                                  for key, c in members.items())
                   for item in items(value))
    if isinstance(condition, list):
        return isinstance(value, list) and all(any(matches(item, c) for item in items(value))
                                               for c in condition)
    return any(is_scalar(item) and same(item, condition) for item in items(value))


def scalar(rng):
    return rng.choice([lambda: rng.choice(WORDS), lambda: rng.choice(NUMBERS),
                       lambda: rng.choice([True, False, None])])()


def payload(rng, depth, in_array=False):
    kind = rng.random()
    if depth and kind < 0.35:
        return {key: payload(rng, depth - 1) for key in rng.sample(KEYS, rng.randint(0, 3))}
    if depth and kind < 0.6:
        return [payload(rng, depth - 1, True) if rng.random() < 0.3 and not in_array
                else scalar(rng) if in_array or rng.random() < 0.6
                else {rng.choice(KEYS): scalar(rng)} for _ in range(rng.randint(0, 3))]
    return scalar(rng)


def value_of(rng, payloads):
    """Mostly a value that some payload has, so that equality is not always false."""
    value = rng.choice(payloads)
    while isinstance(value, (dict, list)) and value and rng.random() < 0.8:
        value = rng.choice(list(value.values()) if isinstance(value, dict) else value)
    return value


def condition(rng, depth, payloads, in_array=False):
    kind = rng.random()
    if depth and kind < 0.3:
        members = {key: condition(rng, depth - 1, payloads)
                   for key in rng.sample(KEYS, rng.randint(0, 2))}
        if rng.random() < 0.3:
            members.update(operators(rng, depth, payloads))
        return members
    if depth and kind < 0.4 and not in_array:
        return [condition(rng, depth - 1, payloads, True) for _ in range(rng.randint(0, 2))]
    if kind < 0.8:
        return operators(rng, depth, payloads)
    return scalar(rng)


def operators(rng, depth, payloads):
    name = rng.choice(["$eq", "$neq", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$startsWith",
                       "$endsWith", "$exist"] + (["$and", "$or", "$not"] if depth else []))
    if name in ("$and", "$or"):
        arg = [condition(rng, depth - 1, payloads) for _ in range(rng.randint(1, 3))]
    elif name == "$not":
        arg = condition(rng, depth - 1, payloads)
    elif name in ("$eq", "$neq"):
        arg = value_of(rng, payloads)
    elif name == "$exist":
        arg = rng.choice([True, False])
    elif name in ("$startsWith", "$endsWith"):
        arg = rng.choice(WORDS) if rng.random() < 0.6 else rng.sample(WORDS, 2)
    elif name in ("$in", "$nin"):
        arg = scalar(rng) if rng.random() < 0.5 else [scalar(rng) for _ in range(rng.randint(0, 3))]
    else:
        arg = rng.choice(WORDS + NUMBERS)
    result = {name: arg}
    if rng.random() < 0.2:
        result.update(operators(rng, 0, payloads))
    return result


def patterns(value):
    if isinstance(value, list):
        return sum(map(patterns, value))
    if not isinstance(value, dict):
        return 0
    return sum(patterns(v) + (key in ("$in", "$nin") and isinstance(v, str))
               + (key == "$endsWith") * (len(v) if isinstance(v, list) else 1)
               for key, v in value.items())


def levels(value):
    """Returns how deep a filter is nested; the service accepts ten levels."""
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if below is None else 1 + max(map(levels, below), default=0)


def main():
    seed, payload_count, filter_count = map(int, sys.argv[1:])
    rng = random.Random(seed)
    payloads = [{key: payload(rng, 3) for key in rng.sample(KEYS, rng.randint(1, 4))}
                for _ in range(payload_count)]
    filters = []
    while len(filters) < filter_count:
        # members that most payloads have, so that conditions deeper inside decide
        made = {key: condition(rng, 2, payloads) for key in rng.sample(KEYS, rng.randint(1, 2))}
        if rng.random() < 0.3:
            made = {rng.choice(["$or", "$and"]): [made, condition(rng, 2, payloads)]}
        elif rng.random() < 0.1:
            made = {"$not": made}
        if levels(made) <= 10 and patterns(made) <= 10 and json.dumps(made).count(":") < 30:
            filters.append([made, [matches(p, made) for p in payloads]])
    json.dump({"payloads": payloads, "filters": filters}, sys.stdout)


if __name__ == "__main__":
    main()
