"""How good predictions are as a guide to a choice: pure functions, tested by scores_test.py."""


def median(values):
    values = sorted(values)
    if not values:
        raise ValueError("the median of nothing")
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def places(values):
    """Each value's place among them, from 1; equal values share the mean of their places."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    out = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end < len(order) and values[order[end]] == values[order[begin]]:
            end += 1
        for i in order[begin:end]:
            out[i] = (begin + 1 + end) / 2
        begin = end
    return out


def spearman(a, b):
    """Correlation of places: 1 where both order alike. None where there is nothing to order."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} values beside {len(b)}")
    x, y = places(a), places(b)
    mean = (len(a) + 1) / 2
    across = sum((p - mean) * (q - mean) for p, q in zip(x, y))
    square = sum((p - mean) ** 2 for p in x) * sum((q - mean) ** 2 for q in y)
    return across / square**0.5 if square > 0 else None


def regret(predicted, measured):
    """How much more than the least is measured of what is predicted least."""
    if len(predicted) != len(measured):
        raise ValueError(f"{len(predicted)} values beside {len(measured)}")
    return measured[min(range(len(predicted)), key=lambda i: predicted[i])] / min(measured) - 1


def error(predicted, measured):
    """Signed, of what was measured."""
    return predicted / measured - 1


def median_error(predicted, measured):
    return median([abs(error(p, m)) for p, m in zip(predicted, measured)])
