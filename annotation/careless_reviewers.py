"""Detects careless reviewers: who accepts suggestions unread, and who reads past what is there.

reads  per reviewer: decoys shown and accepted; sensitivities that are there, shown without a suggestion, and missed
gives  what flags them

Each test is an e-process: the likelihood of the answers, averaged over all rates above the honest one, against their
likelihood at the honest one. While a reviewer's chance of a mistake is at most HONEST, whatever they answered before,
its expected value never grows, so it ever exceeds 1 / FALSE_ALARM with a chance of FALSE_ALARM at most (Ville):
looking daily costs nothing. Both tests together flag an honest reviewer in at most 0.5 % of all lives.
"""

from math import exp, fsum, inf, lgamma, log

FALSE_ALARM = 0.0025  # of each test, over a reviewer's whole life
HONEST_ACCEPTS = 0.2  # decoys that an attentive reviewer may accept: some look true
HONEST_MISSES = 0.3  # of what is there and not suggested
UNREAD = "accepts suggestions unread"
PAST = "reads past what is there"


def flags(*, accepted: int, decoys: int, missed: int, there: int) -> list[str]:
    """What speaks against this reviewer, who accepted or missed more than an attentive one; mostly nothing."""
    tests = {UNREAD: (accepted, decoys, HONEST_ACCEPTS), PAST: (missed, there, HONEST_MISSES)}
    return [words for words, answers in tests.items() if log_evidence(*answers) >= log(1 / FALSE_ALARM)]


def log_evidence(mistakes: int, answers: int, honest: float) -> float:
    """log E against every rate of mistakes up to `honest`, with an even prior over the rates above it.

    With k of n: E = integral of p^k (1-p)^(n-k) dp from honest to 1 / ((1 - honest) honest^k (1-honest)^(n-k)), and
    the integral is B(k+1, n-k+1) P(X <= k) with X ~ Binomial(n+1, honest).
    """
    k, n, yes, no = mistakes, answers, log(honest), log(1 - honest)
    tail = fsum(exp(_choose(n + 1, i) + i * yes + (n + 1 - i) * no) for i in range(k + 1))
    if not tail:  # so few mistakes that the chance is below the smallest number
        return -inf
    beta = -_choose(n, k) - log(n + 1)
    return beta + log(tail) - no - k * yes - (n - k) * no


def _choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
